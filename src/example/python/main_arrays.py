
def main():
    files = dict(word.split("=", 1) for word in sys.argv[1:])
    if unknown := files.keys() - SHAPES.keys():
        sys.exit(f"the net has no input {', '.join(unknown)}; it has {', '.join(SHAPES)}")
    # Inputs that are not given are zeros.
    given = {name: calls(name, read_array(name, path)) for name, path in files.items()}
    given = {name: given.get(name) or calls(name, np.zeros(shape)) for name, shape in SHAPES.items()}
    net, states = load(), dict(STATES)
    for step in range(max(map(len, given.values()))):
        results = run(net, {name: parts[min(step, len(parts) - 1)] for name, parts in given.items()} | states)
        states = {name: results[after] for name, after in CONTINUED.items()}
{{tail}}
