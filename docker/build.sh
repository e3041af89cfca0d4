#!/usr/bin/env bash
# The build steps of the image: makes the tree that is copied into it.
#
#   docker/build.sh DEST                 builds with the profile `release`
#   docker/build.sh --profile NAME DEST  builds with another one
#   docker/build.sh --program FILE DEST  builds nothing: takes a program that has been built
#
# DEST/usr/local/bin    the program, and the script that starts it
# DEST/etc/nilometer    pipelines and tables
# DEST/usr/share/doc    the licence
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# The libraries that the last stage of the Dockerfile has, beside those of libc and the compiler.
provided='libc|libm|libgcc_s|libz|libssl|libcrypto|ld-linux[-a-z0-9]*|linux-vdso'

fail() {
    echo "docker/build.sh: $*" >&2
    exit 2
}

usage="usage: docker/build.sh [--profile NAME | --program FILE] DEST"
profile=release
program=""
while [[ ${1:-} == -* ]]; do
    case $1 in
    -h | --help)
        echo "$usage"
        exit
        ;;
    --profile) profile=${2:?$usage} ;;
    --program) program=${2:?$usage} ;;
    *) fail "unknown option $1" ;;
    esac
    shift 2
done
[ $# = 1 ] || fail "$usage"
# Also where the build goes elsewhere.
dest=$(realpath --canonicalize-missing -- "$1")

if [ -z "$program" ]; then
    cd "$here"
    cargo build --locked --profile "$profile" --package nilometer --bin nilometer
    # The directory of the profile `dev` is `debug`.
    program=${CARGO_TARGET_DIR:-target}/${profile/#dev/debug}/nilometer
fi
[ -x "$program" ] || fail "there is no program $program"

ldd "$program" | while read -r library _; do
    name=$(basename "$library")
    [[ $name =~ ^($provided)\.so ]] || fail "the image has no $name: add it to docker/Dockerfile, and here"
done

install -D --mode=0755 "$program" "$dest/usr/local/bin/nilometer"
strip --strip-debug "$dest/usr/local/bin/nilometer"
install -D --mode=0755 "$here/docker/entrypoint.sh" "$dest/usr/local/bin/entrypoint.sh"
install -D --mode=0644 --target-directory="$dest/etc/nilometer" "$here"/config/*.toml "$here"/config/*.csv
install -D --mode=0644 --target-directory="$dest/usr/share/doc/nilometer" "$here/LICENSE"
