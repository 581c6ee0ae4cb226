#!/bin/bash
# A virtual machine: a small Debian with its own kernel and SELinux enforcing, up in five seconds from a snapshot of its
# memory, thrown away after use. For what beds cannot have: SELinux, a clock and limits of their own.
#
#   vm.sh can                      0 if this machine can host one; else says why not and exits 77
#   vm.sh root                     builds the root file system, once, and prints its path
#   vm.sh image [MODULE.cil]        builds the labelled disk (with this policy module) and the snapshot, once; prints its directory
#   vm.sh up NAME [MODULE.cil] [FILES.img]
#                                  a machine from the snapshot, ready; FILES.img is a read-only ext4 disk, mounted on /mnt
#   vm.sh files DIR FILES.img      makes such a disk of a directory
#   vm.sh run NAME CMD..           CMD (words for the guest's shell) as root over ssh; its exit status comes back
#   vm.sh put NAME FILE.. DEST     copies files into it
#   vm.sh wait NAME                until it is ready
#   vm.sh reboot NAME              an orderly reboot, until ready again
#   vm.sh cut NAME                 a power cut and a boot, until ready again
#   vm.sh console NAME             what it wrote to its console
#   vm.sh down NAME                kills it and removes every trace
#   vm.sh sweep                    takes down the machines whose owner (BED_OWNER at `up`) is dead
#   vm.sh clean                    takes down every machine and removes roots and images
#
# Environment: VM_POLICY (an archive with another SELinux policy than Debian's, one directory with modules/*.pp and
# etc/selinux/targeted), TELEPORT_UPDATE_BEDS (cache and state directory, as for beds),
# BED_DEADLINE (seconds until ready, default 300: a boot without snapshot takes 20 to 40, on a machine at work many times that),
# BED_OWNER (pid that the machine must not outlive), TELEPORT_UPDATE_NO_BEDS=1 (this machine shall host none).
#
# The machine is emulated (TCG): no KVM is needed, and a program runs about ten times slower. Its only network is the
# emulator's: the host is 10.0.2.2, and ssh comes in on a free port of the host's loopback.
set -euo pipefail

home=${TELEPORT_UPDATE_BEDS:-${HOME:-/root}/.cache/teleport-update-beds}
run_dir=$home/vms
deadline=${BED_DEADLINE:-300}

# What the guest needs beside a booting Debian: the reference policy with its tools, ssh for `run`, dbus and logind as on
# any server. policycoreutils-python-utils has semanage, python3 looks into databases.
packages=systemd,systemd-sysv,dbus,udev,ca-certificates,kmod,iproute2,procps,libpam-systemd,linux-image-cloud-amd64
packages+=,initramfs-tools,zstd,e2fsprogs,passwd,openssh-server,python3-minimal,libpython3-stdlib
packages+=,selinux-basics,selinux-policy-default,auditd,policycoreutils,policycoreutils-python-utils,semodule-utils
# MiB; the snapshot holds what of it is used.
memory=1024
disk=3000M
# Debian's kernel puts AppArmor first unless told.
append='root=/dev/vda rw console=ttyS0 panic=-1 lsm=landlock,lockdown,yama,integrity,selinux,bpf security=selinux'

die() { echo "vm.sh: $*" >&2; exit 1; }

# shellcheck source=processes.sh
. "$(dirname "${BASH_SOURCE[0]}")/processes.sh"

can() {
    local why='' tool
    if [ -n "${TELEPORT_UPDATE_NO_BEDS:-}" ]; then why="switched off by TELEPORT_UPDATE_NO_BEDS"
    elif [ "$(id -u)" != 0 ]; then why="not root"
    elif [ "$(uname -m)" != x86_64 ]; then why="not x86_64"
    else
        for tool in qemu-system-x86_64 qemu-img mmdebstrap setfiles mke2fs ssh scp python3 flock; do
            if ! command -v $tool >/dev/null; then why="$tool is missing (tests/setup.sh vm)"; break; fi
        done
    fi
    if [ -n "$why" ]; then echo "no virtual machines here: $why"; exit 77; fi
}

# --- building: each thing under a name that holds a digest of what it was made from, by one builder at a time ---

digest() { sha256sum | cut -c1-12; }

# once PATH FUNCTION ARG..: runs FUNCTION TEMPORARY ARG.. unless PATH is there, and renames the result.
once() {
    local path=$1 function=$2 temp
    shift 2
    [ ! -d "$path" ] || return 0
    exec 9>"$home/.lock-$(basename "$path")"
    flock 9
    if [ ! -d "$path" ]; then
        (
            temp=$(mktemp -d "$home/.building-XXXXXX")
            # shellcheck disable=SC2064 # the path of now
            trap "rm -rf --one-file-system '$temp'" EXIT
            exec 9>&-
            mkdir "$temp/it"
            "$function" "$temp/it" "$@" >&2
            mv -T "$temp/it" "$path"
        )
    fi
    exec 9>&-
}

key_pair() {
    [ -f "$home/vm-id" ] || { ssh-keygen -q -t ed25519 -N '' -C vm -f "$home/.vm-id-$$" && mv "$home/.vm-id-$$.pub" "$home/vm-id.pub" && mv "$home/.vm-id-$$" "$home/vm-id"; }
}

root_path() { echo "$home/vm-root-$({ declare -f build_root settle; echo "$packages"; cat "$home/vm-id.pub"; } | digest)"; }

build_root() {
    local root=$1 log=$1.log started=$SECONDS source=/etc/apt/sources.list.d/debian.sources
    [ -f "$source" ] || source=
    echo "vm.sh: building the root file system (about two minutes)"
    if ! mmdebstrap --variant=minbase --mode=root --include="$packages" \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
        bookworm "$root" ${source:+"$source"} </dev/null >"$log" 2>&1; then
        tail -n 30 "$log"
        die "mmdebstrap failed"
    fi
    settle "$root"
    echo "vm.sh: $(du -sm "$root" | cut -f1) MiB, $((SECONDS - started)) s"
}

# build_policy_root ROOT BASE: the same with the policy of $VM_POLICY in the place of Debian's.
build_policy_root() {
    local root=$1 started=$SECONDS
    echo "vm.sh: building the root file system with $(basename "$VM_POLICY") (some minutes)"
    rmdir "$root"
    cp -a "$2" "$root"
    mkdir "$root/policy" "$root/var/lib/selinux/targeted"
    tar -C "$root/policy" --strip-components=1 --no-same-owner -xf "$VM_POLICY"
    cp -a "$root/policy/etc/selinux/targeted" "$root/etc/selinux/"
    sed -i 's/^SELINUXTYPE=.*/SELINUXTYPE=targeted/' "$root/etc/selinux/config"
    chroot "$root" sh -c 'semodule -s targeted -n -i /policy/modules/*.pp'
    rm -rf "$root/policy"
    echo "vm.sh: $((SECONDS - started)) s"
}

settle() {
    local root=$1 unit
    mkdir -p "$root/root/.ssh"
    chmod 700 "$root/root/.ssh"
    install -m 600 "$home/vm-id.pub" "$root/root/.ssh/authorized_keys"
    printf 'PermitRootLogin prohibit-password\nUseDNS no\n' >"$root/etc/ssh/sshd_config.d/vm.conf"
    echo '/dev/vda / ext4 defaults 0 1' >"$root/etc/fstab"
    printf '[Match]\nName=en* eth*\n[Network]\nAddress=10.0.2.15/24\nGateway=10.0.2.2\nDNS=10.0.2.3\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n' \
        >"$root/etc/systemd/network/10.network"
    chroot "$root" systemctl -q enable systemd-networkd.service
    echo vm >"$root/etc/hostname"
    echo '127.0.0.1 localhost vm' >"$root/etc/hosts"
    echo 'nameserver 10.0.2.3' >"$root/etc/resolv.conf"
    tr -d - </proc/sys/kernel/random/uuid >"$root/etc/machine-id"
    # No timer of the distribution may hold a lock or the disk in the middle of a test.
    for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer; do
        ln -sf /dev/null "$root/etc/systemd/system/$unit"
    done
    rm -f "$root/etc/dpkg/dpkg.cfg.d/99mmdebstrap"
    sed -i 's/^SELINUX=.*/SELINUX=enforcing/' "$root/etc/selinux/config"
    rm -f "$root/.autorelabel"
}

policy_root_path() { echo "$(root_path)-$({ declare -f build_policy_root; cat "$VM_POLICY"; } | digest)"; }

image_path() { echo "$home/vm-image-$({ declare -f build_image qemu guest ready; echo "$packages $memory $disk $append $1"; shift; if [ -n "${1:-}" ]; then cat "$1"; fi; } | digest)"; }

# build_image DIR ROOT [MODULE]: disk.img (labelled on this host: without SELinux in its kernel it just stores what a
# label is, an attribute), kernel, initrd, and ready.qcow2 with the snapshot.
build_image() {
    local dir=$1 base=$2 module=${3:-} root=$1/root policy started=$SECONDS
    echo "vm.sh: building the image${module:+ with $(basename "$module")} (about a minute)"
    cp -a "$base" "$root"
    if [ -n "$module" ]; then
        cp "$module" "$root/root/$(basename "$module")"
        chroot "$root" semodule -n -X 200 -i "/root/$(basename "$module")"
        rm "$root/root/$(basename "$module")"
    fi
    policy=$(sed -n 's/^SELINUXTYPE=//p' "$root/etc/selinux/config")
    setfiles -F -r "$root" "$root/etc/selinux/$policy/contexts/files/file_contexts" "$root"
    mke2fs -q -t ext4 -L root -E root_owner=0:0,lazy_itable_init=0,lazy_journal_init=0 -d "$root" "$dir/disk.img" $disk
    cp "$root"/boot/vmlinuz-* "$dir/kernel"
    cp "$root"/boot/initrd.img-* "$dir/initrd"
    rm -rf --one-file-system "$root"
    # The backing file is named relatively: the directory is renamed when complete.
    (cd "$dir" && qemu-img create -q -f qcow2 -F raw -b disk.img ready.qcow2)
    mkdir "$dir/vm"
    truncate -s 512M "$dir/vm/files.img"
    vm=$dir/vm
    # shellcheck disable=SC2064 # the path of now
    trap "kill_vm '$dir/vm'; rm -rf --one-file-system '$(dirname "$dir")'" EXIT
    qemu "$dir" "$dir/ready.qcow2"
    ready
    [ "$(guest getenforce)" = Enforcing ] || die "the guest does not enforce SELinux"
    # What the boot itself left to say, and what is in memory for no use.
    guest 'systemctl is-system-running; sync; echo 3 >/proc/sys/vm/drop_caches'
    monitor 'savevm ready'
    kill_vm "$dir/vm"
    rm -rf "$dir/vm"
    echo "vm.sh: $(du -sm "$dir" | cut -f1) MiB, $((SECONDS - started)) s"
}

# --- a running machine; $vm is its state directory ---

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# qemu IMAGE-DIR DISK [ARG..]. The same arguments for saving a snapshot and for loading it.
qemu() {
    local dir=$1 drive=$2 port pid
    shift 2
    port=$(free_port)
    echo "$port" >"$vm/port"
    setsid qemu-system-x86_64 -M q35 -accel tcg,thread=multi,tb-size=512 -cpu max -m $memory -smp 2 \
        -nodefaults -no-user-config -display none -serial "file:$vm/console" \
        -kernel "$dir/kernel" -initrd "$dir/initrd" -append "$append" \
        -drive "if=none,id=root,file=$drive,format=qcow2,cache=writeback" -device virtio-blk-pci,drive=root \
        -drive "if=none,id=files,file=$vm/files.img,format=raw,readonly=on" -device virtio-blk-pci,drive=files \
        -netdev "user,id=net,hostfwd=tcp:127.0.0.1:$port-:22" -device virtio-net-pci,netdev=net \
        -device virtio-rng-pci -monitor "unix:$vm/monitor,server,nowait" "$@" \
        </dev/null >"$vm/qemu.log" 2>&1 9>&- &
    pid=$!
    remember "$vm/pid" $pid
    # Its end is no news for this shell.
    disown $pid
}

ssh_options=(-q -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o BatchMode=yes -o ConnectTimeout=15 -o ServerAliveInterval=20)
guest() { ssh "${ssh_options[@]}" -i "$home/vm-id" -p "$(cat "$vm/port")" root@127.0.0.1 "$@" </dev/null; }

ready() {
    local end=$((SECONDS + deadline)) state='' pid
    while ((SECONDS < end)); do
        state=$(guest systemctl is-system-running 2>/dev/null || true)
        case $state in running | degraded) return 0 ;; esac
        if ! living "$vm/pid"; then
            cat "$vm/qemu.log" >&2
            tail -n 20 "$vm/console" >&2 || true
            die "the machine ended while booting"
        fi
        sleep 0.2
    done
    tail -n 20 "$vm/console" >&2 || true
    die "the machine is not ready after $deadline s (state: ${state:-unknown})"
}

# Lines to the emulator's monitor; its answers.
monitor() {
    python3 - "$vm/monitor" "$@" <<'PY'
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.settimeout(120)
def read():
    b = b""
    while not b.endswith(b"(qemu) "):
        more = s.recv(65536)
        if not more:
            sys.exit("vm.sh: the monitor closed")
        b += more
    return b.decode(errors="replace")
read()
for line in sys.argv[2:]:
    s.sendall(line.encode() + b"\n")
    answer = read()
    if "rror" in answer:
        sys.exit("vm.sh: " + answer)
PY
}

kill_vm() {
    local pid i
    living "$1/pid" || return 0
    kill -KILL "$pid" 2>/dev/null || true
    for ((i = 0; i < 100; i++)); do
        living "$1/pid" || return 0
        sleep 0.02
    done
}

down() {
    kill_vm "$vm"
    rm -rf --one-file-system "$vm"
}

fate() {
    [ "$1" = 0 ] || down
    exit "$1"
}

up() {
    local module=${1:-} files=${2:-} image
    can >&2
    sweep
    [ ! -e "$vm" ] || down
    image=$(main image ${module:+"$module"})
    mkdir -p "$vm"
    trap 'fate $?' EXIT
    trap 'exit 143' TERM INT HUP
    if [ -n "${BED_OWNER:-}" ]; then remember "$vm/owner.pid" "$BED_OWNER"; fi
    # The machine's changes go to a layer of its own, but for the snapshot's memory, which qemu only finds in the top one.
    cp --sparse=always "$image/ready.qcow2" "$vm/disk.qcow2"
    qemu-img rebase -q -u -f qcow2 -F raw -b "$image/disk.img" "$vm/disk.qcow2"
    if [ -n "$files" ]; then cp --sparse=always "$files" "$vm/files.img"; else truncate -s 512M "$vm/files.img"; fi
    echo "$image" >"$vm/image"
    qemu "$image" "$vm/disk.qcow2" -loadvm ready
    ready
    # The guest's clock stood still since the snapshot; what it knows of the second disk is of the snapshot's.
    guest "date -s @$(date +%s) >/dev/null; blockdev --flushbufs /dev/vdb"
    if [ -n "$files" ]; then guest mount -o ro,context=system_u:object_r:bin_t:s0 /dev/vdb /mnt; fi
}

# A power cut: what the guest had not flushed is gone. Then a boot.
power_cut() {
    kill_vm "$vm"
    qemu "$(cat "$vm/image")" "$vm/disk.qcow2"
    ready
}

reboot() {
    local boot
    boot=$(guest cat /proc/sys/kernel/random/boot_id)
    guest systemctl reboot || true
    local end=$((SECONDS + deadline)) now
    while ((SECONDS < end)); do
        now=$(guest cat /proc/sys/kernel/random/boot_id 2>/dev/null || echo "$boot")
        [ "$now" = "$boot" ] || { ready; return; }
        sleep 0.3
    done
    die "the machine did not reboot within $deadline s"
}

clean() {
    down_all
    rm -rf --one-file-system "$home"/vm-root-* "$home"/vm-image-*
}

main() {
    local path root
    case $1 in
    can | sweep | clean) "$1"; return ;;
    root)
        key_pair
        path=$(root_path)
        once "$path" build_root
        if [ -n "${VM_POLICY:-}" ]; then
            root=$path path=$(policy_root_path)
            once "$path" build_policy_root "$root"
        fi
        echo "$path"
        return
        ;;
    image)
        root=$(main root)
        path=$(image_path "$root" "${2:-}")
        once "$path" build_image "$root" ${2:+"$(realpath "$2")"}
        echo "$path"
        return
        ;;
    files)
        [ $# = 3 ] || die "files DIR FILES.img"
        rm -f "$3"
        mke2fs -q -t ext4 -d "$2" "$3" 512M
        return
        ;;
    up | run | put | wait | reboot | cut | console | down) ;;
    *) sed -n '2,/^set -e/{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2 ;;
    esac
    local verb=$1 name=${2:-}
    [[ $name =~ ^[a-z0-9][a-z0-9-]{0,50}$ ]] || die "not a name for a machine: '$name'"
    shift 2
    vm=$run_dir/$name
    case $verb in up | down) ;; *) [ -d "$vm" ] || die "no machine $name" ;; esac
    case $verb in
    up) up "$@" ;;
    run) guest "$@" ;;
    put) scp "${ssh_options[@]}" -i "$home/vm-id" -P "$(cat "$vm/port")" "${@:1:$#-1}" "root@127.0.0.1:${*: -1}" ;;
    wait) ready ;;
    console) cat "$vm/console" ;;
    cut) power_cut ;;
    *) "$verb" ;;
    esac
}

mkdir -p "$home" "$run_dir"
main "${1:-}" "${@:2}"
