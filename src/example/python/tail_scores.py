for index, probability in best(softmax(results[SCORES].ravel())):
    print(f"{name_of(index)}  {probability:.3f}")
