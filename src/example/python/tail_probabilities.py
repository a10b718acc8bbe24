for index, probability in best(results[SCORES].ravel()):
    print(f"{name_of(index)}  {probability:.3f}")
