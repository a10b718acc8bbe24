boxes, classes, scores, further = candidates(results)
for index in select(boxes, classes, scores):
    corners = " ".join(f"{x:.1f}" for x in in_picture(boxes[index], place))
    print(f"{name_of(classes[index])}  {scores[index]:.3f}  {corners}")
