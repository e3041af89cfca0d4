#!/bin/sh
# What a container of the image runs.
#
# Without arguments: the pipeline $NILOMETER_PIPELINE, with its state in $NILOMETER_STATE. With arguments:
# nilometer with these, such as `plan /etc/nilometer/flows-kafka.toml`. It becomes nilometer, so that the
# signals of the container reach it: SIGTERM drains, and ends with a last epoch.
set -eu

fail() {
    echo "entrypoint: $*" >&2
    exit 2
}

if [ $# -gt 0 ]; then
    exec nilometer "$@"
fi
pipeline=${NILOMETER_PIPELINE:-/etc/nilometer/flows-kafka.toml}
state=${NILOMETER_STATE:-/var/lib/nilometer/state}
[ -r "$pipeline" ] || fail "cannot read the pipeline $pipeline: mount it there, or set NILOMETER_PIPELINE"
parent=$(dirname "$state")
[ -w "$parent" ] || fail "cannot write to $parent as user $(id -u): give it to that user, or set NILOMETER_STATE"
exec nilometer run "$pipeline" --state "$state"
