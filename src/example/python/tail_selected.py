boxes, classes, scores, further = candidates(results)
# The net has selected the boxes itself.
for index in np.flatnonzero(scores >= 0.25):
    corners = " ".join(f"{x:.1f}" for x in in_picture(boxes[index], place))
    print(f"{name_of(classes[index])}  {scores[index]:.3f}  {corners}")
