
def main():
    files = dict(word.split("=", 1) for word in sys.argv[1:])
    if unknown := files.keys() - SHAPES.keys():
        sys.exit(f"the net has no input {', '.join(unknown)}; it has {', '.join(SHAPES)}")
    if missing := [name for name, shape in SHAPES.items() if -1 in shape and name not in files]:
        sys.exit(f"usage: {sys.argv[0]} {missing[0]}=FILE.npy, a FILE.wav, or numbers with commas")
    # Inputs that are not given are zeros.
    given = {name: calls(name, read_array(name, text)) for name, text in files.items()}
    given = {name: given.get(name) or calls(name, np.zeros(shape)) for name, shape in SHAPES.items()}
    net, states = load(), dict(STATES)
    for step in range(max(map(len, given.values()))):
        results = run(net, {name: parts[min(step, len(parts) - 1)] for name, parts in given.items()} | states)
        states = {name: results[after] for name, after in CONTINUED.items()}
{{tail}}
