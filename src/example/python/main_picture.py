
def main():
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} PICTURE")
    picture, place = read_picture(sys.argv[1])
    given = {
{{given}}
    }
    results = run(load(), given)
{{tail}}
