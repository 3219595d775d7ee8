#!/bin/sh
# Prints the first Python that the course runs on (3.11 to 3.13), or says what is missing.
# PYTHON=/path/to/python make run   chooses one by hand.
for candidate in ${PYTHON:-} python3.11 python3.12 python3.13 python3 python; do
  if found=$("$candidate" -c 'import sys; print(sys.executable if (3, 11) <= sys.version_info[:2] <= (3, 13) else "")' 2>/dev/null) && [ -n "$found" ]; then
    printf '%s\n' "$found"
    exit 0
  fi
done
printf '%s\n' >&2 \
  'KV Scope needs Python 3.11, 3.12 or 3.13, and none of them answers here.' \
  '  Debian, Ubuntu   sudo apt-get install python3 python3-venv' \
  '  macOS            brew install python@3.12' \
  '  anywhere         pyenv install 3.12, then: PYTHON=$(pyenv prefix 3.12)/bin/python make run'
exit 1
