
def main():
    tokens = [int(word) for word in sys.argv[1:]]
    if not tokens:
        sys.exit(f"usage: {sys.argv[0]} TOKEN...")
    count = total = len(tokens)
    given = {
{{given}}
    }
    results = run(load(), given)
{{tail}}
