#!/bin/sh
# A subagent: prints the objective in capital letters. The whole request is on stdin, as JSON.
if [ "$PASSOVER_OBJECTIVE" = whisper ]; then
  echo 'I cannot whisper' >&2
  exit 1
fi
printf '%s\n' "$PASSOVER_OBJECTIVE" | tr a-z A-Z
