#!/bin/sh
# Runs a command of wine, again if wine itself failed, as it does once in a thousand times: its server breaks the connection of the program
# at its start.
# again.sh WINE PROGRAM [WORD...]
errors=$(mktemp)
for _ in 1 2 3; do
    "$@" 2> "$errors"
    code=$?
    grep --quiet '^wine' "$errors" || break
done
cat "$errors" >&2
rm "$errors"
exit $code
