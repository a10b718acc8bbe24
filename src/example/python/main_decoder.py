
def main():
    tokens = [int(word) for word in sys.argv[1:]]
    if not tokens:
        sys.exit(f"usage: {sys.argv[0]} TOKEN...")
    net, states = load(), dict(STATES)
    total = 0
    for _ in range(STEPS):
        count, total = len(tokens), {{total}}
        given = {
{{given}}
        }
        results = run(net, given | states)
        states = {name: results[after] for name, after in CONTINUED.items()}
        rows = results[LOGITS].reshape(-1, results[LOGITS].shape[-1])
        best = int(rows[min(count, len(rows)) - 1].argmax())
        tokens = {{next}}
        print(best, end=" ", flush=True)
    print()
