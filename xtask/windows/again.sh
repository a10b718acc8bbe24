#!/bin/sh
# Runs a command of wine, again if its server broke the connection of the program at its start, as happens once in a thousand times.
# again.sh WINE PROGRAM [WORD...]
errors=$(mktemp)
for _ in 1 2 3; do
    "$@" 2> "$errors"
    code=$?
    grep --quiet '^wine client error' "$errors" || break
done
cat "$errors" >&2
rm "$errors"
exit $code
