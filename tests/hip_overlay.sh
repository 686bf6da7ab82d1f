#!/bin/sh
# Lets clang 19 compile for gfx942 and gfx1100 with the device library of Debian's hipcc (ROCm 5.2):
#
#   export FLOWLOOM_HIPCC="$(sh tests/hip_overlay.sh DIRECTORY)"
#   flowloom compile MODEL -o DIR --target hip --arch gfx942
#   python tests/hip_architectures.py --architectures gfx942 gfx1100 # what the code takes
#   cmake -S PROJECT -B BUILD -DFLOWLOOM_GPU=HIP -DCMAKE_CXX_COMPILER="$FLOWLOOM_HIPCC"
#
# Writes into DIRECTORY what that library lacks, and prints the compiler's command. Needs clang-19,
# hipcc and what hipcc brings: lld-15 and clang-tools-15.
set -e
mkdir -p "$1"
place=$(cd "$1" && pwd)
library=${DEVICE_LIBRARY:-/usr/lib/x86_64-linux-gnu/amdgcn/bitcode}
ln -sf "$library"/*.bc "$place/"
for version in 942:9402 1100:11000; do
  echo "extern const __attribute__((address_space(4), visibility(\"protected\"), weak)) int __oclc_ISA_version;
        const __attribute__((address_space(4))) int __oclc_ISA_version = ${version#*:};" |
    clang-19 -target amdgcn-amd-amdhsa -nogpulib -x c -emit-llvm -c - -o "$place/oclc_isa_version_${version%:*}.bc"
done
ln -sf /usr/lib/llvm-15/bin/clang-offload-bundler "$place/"
# lld 15 does not know the name of the only kind of file that it is given, nor a flag of clang 19.
cat > "$place/lld" <<'END'
#!/bin/sh
for argument; do
  shift
  case $argument in -m | elf64_amdgpu | --lto-CGO*) ;; *) set -- "$@" "$argument" ;; esac
done
exec /usr/lib/llvm-15/bin/lld "$@"
END
chmod +x "$place/lld"
cat > "$place/hipcc" <<END
#!/bin/sh
PATH="\$PATH:$place" exec clang++-19 --hip-path=/usr --rocm-device-lib-path="$place" -mcode-object-version=5 \\
  -Wno-unused-command-line-argument "\$@"
END
chmod +x "$place/hipcc"
echo "$place/hipcc"
