for name, result in results.items():
    if name not in KEPT:
        print(f"{name}  {result.shape}  from {result.min():.6g} to {result.max():.6g}, mean {result.mean():.6g}")
