#!/bin/sh
# Builds the emulated driver: OUT/libcuda.so, with the kernels compiled as C++.
#
#   build.sh OUT [compiler flags]
#
# KERNELS   folders of .cu files, separated by blanks; default: the parent folder. A module's name is
#           the path of its file below the folder, without the extension.
# INCLUDES  additional include folders.
# OBJECTS   folder for object files, default OUT/objects; several builds may share it.
# CXX, JOBS the compiler (g++) and the number of parallel jobs (one per processor).
#
# Objects are named by a hash of compiler, flags and preprocessed source, so a rebuild compiles only
# what changed. Folder names must not contain blanks.
set -eu
: "${1:?usage: build.sh OUT [compiler flags]}"

# The script calls itself like this for each file; prints the object's path.
if [ "$1" = --compile ]; then
    source=$2 module=$3
    # The driver does not depend on the kernels linked with it.
    case $module in host/*) FLAGS=$HOST_FLAGS ;; esac
    # shellcheck disable=SC2086 # flags are words
    set -- $FLAGS "-DCUDA_HOST_MODULE=\"$module\"" -x c++ "$source"
    # The driver is not hot, so favour compile time.
    case $module in host/driver/*) set -- "$@" -O1 ;; esac
    hash=$({ echo "$VERSION" "$@"; $CXX "$@" -E; } | sha256sum | cut -c 1-24)
    object=$OBJECTS/$(echo "$module" | tr / .)-$hash.o
    if ! [ -e "$object" ]; then
        $CXX "$@" -c -o "$object.$$" || { rm -f "$object.$$"; exit 255; }
        mv "$object.$$" "$object"
    fi
    echo "$object"
    exit
fi

host=$(cd "$(dirname "$0")" && pwd)
KERNELS=${KERNELS:-$(dirname "$host")}
mkdir -p "$1"
OUT=$(cd "$1" && pwd)
shift
OBJECTS=${OBJECTS:-$OUT/objects}
mkdir -p "$OBJECTS"
OBJECTS=$(cd "$OBJECTS" && pwd)
CXX=${CXX:-g++}
VERSION=$($CXX --version | head -n 1)
# Thread-local data without calls; no strict aliasing, since kernels mix word widths.
FLAGS="-std=c++20 -O2 -g1 -fPIC -fvisibility=hidden -ftls-model=initial-exec -pthread
    -fno-strict-aliasing -Wall -Wextra -Wno-unknown-pragmas -I$host"
HOST_FLAGS="$FLAGS $*"
for folder in $KERNELS ${INCLUDES:-}; do FLAGS="$FLAGS -I$(cd "$folder" && pwd)"; done
FLAGS="$FLAGS $*"
export OBJECTS CXX VERSION FLAGS HOST_FLAGS

work=$(mktemp -d "$OUT/work.XXXXXX")
trap 'rm -rf "$work"' EXIT
(cd "$host" && ls cuda_host/*.cpp driver/*.cpp) | while read -r file; do
    echo "$host/$file" "host/${file%.cpp}"
done > "$work/sources"
for folder in $KERNELS; do
    folder=$(cd "$folder" && pwd)
    find "$folder" -name '*.cu' | sort | while read -r file; do
        module=${file#"$folder"/}
        echo "$file" "${module%.cu}"
    done
done >> "$work/sources"

xargs -n 2 -P "${JOBS:-$(nproc)}" "$0" --compile < "$work/sources" > "$work/objects"
# shellcheck disable=SC2046,SC2086 # names and flags are words
$CXX -shared -pthread $* -Wl,-soname,libcuda.so -Wl,-z,now \
    -Wl,--version-script="$host/driver/exports.map" -o "$work/libcuda.so" $(sort "$work/objects")
mv "$work/libcuda.so" "$OUT/libcuda.so"
