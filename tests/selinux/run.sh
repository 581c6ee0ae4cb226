#!/bin/bash
# run.sh UPDATER AGENT CLUSTER FLEET [off] [on] [probes] [server] [package]   the updater's flows, and the rollout server's, on
# a host that enforces SELinux, in a virtual machine.
#
# Without names, all five. With teleport_agent_confined off and on: install, enable, update, timer, downgrade, a broken release,
# a release that hangs, a power cut in mid-update, repair, rollback, a further installation, uninstall, a mirror on the host,
# a sealed /usr. After each: no denial in the audit log, nothing for restorecon to change, processes in their domains.
# Probes: what the domains must not do, seen denied, and seen to work when SELinux only warns. Server: server.sh. Prints a
# table; ends with 0 only if all of it holds.
#
# The programs: teleport-update, toy-agent (stands in for Teleport), test-cluster, teleport-fleet. The cluster
# runs here; the guest has its name from a name server and reaches it as 10.0.2.2. FEDORA_POLICY: an archive with Fedora's
# policy (beds/vm.sh, VM_POLICY), under which all of it runs again; without it only Debian's is tried. POLICIES: debian,
# fedora or both. FLOWS: those of "life mirror sealed" that are wanted. KEEP_VM=1 leaves the machine running.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
vm_sh=$here/../beds/vm.sh
read -ra policies <<<"${POLICIES:-debian fedora}"
[ $# -ge 4 ] || { sed -n '2,/^set -e/{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
updater=$(realpath "$1") agent=$(realpath "$2") cluster=$(realpath "$3") fleet=$(realpath "$4")
shift 4
parts=("$@")
[ $# != 0 ] || parts=(off on probes server package)
name=selinux-$$
policy=debian
table=()
failures=0

say() { printf '%s %s\n' "$(date +%T)" "$*"; }
guest() { "$vm_sh" run "$name" "$@"; }

take_down() {
    trap '' INT TERM HUP
    [ -n "${KEEP_VM:-}" ] || "$vm_sh" down "$name" 2>/dev/null || true
    stop_cluster
    rm -rf --one-file-system "$work"
}

# --- the cluster ---

fail() { echo "run.sh: $*" >&2; exit 1; }
# shellcheck source=../cluster.sh
. "$here/../cluster.sh"

# release VERSION SCHEMA BEHAVIOUR [true: with an updater]: published, and named from now on.
release() { publish "$1" "$2" "$3" amd64 "${4:-false}"; }

# --- judging ---

# flow NAME EXPECTED-STATUS COMMAND: runs it in the guest and judges what it left.
flow() {
    local what=$1 wanted=$2 status=0 said
    shift 2
    guest "$*" >"$work/said" 2>&1 || status=$?
    said=
    [ "$status" = "$wanted" ] || said="status $status, not $wanted; $(tail -n 3 "$work/said" | tr '\n' ' ')"
    judge "$what" "$said"
}

# judge NAME COMPLAINT: what the guest finds, and a complaint of the host's, as a line of the table.
judge() {
    local found denials labels domains complaint=$2 verdict=ok
    found=$(guest bash /mnt/guest.sh judge "$boolean") || complaint="$complaint; the guest did not answer"
    denials=$(sed -n 's/^denials //p' <<<"$found")
    labels=$(sed -n 's/^labels //p' <<<"$found")
    domains=$(sed -n 's/^domains //p' <<<"$found")
    if [ -n "$complaint" ] || [ "$denials" != 0 ] || [ "$labels" != 0 ] || [ "${domains%% *}" != ok ]; then
        verdict=FAILED
        failures=$((failures + 1))
        say "FAILED: $1 ($policy, $boolean): $complaint"
        grep -v '^denials \|^labels ' <<<"$found" | head -n 40 || true
    fi
    table+=("$(printf '%-8s %-34s %-8s %8s %8s  %-40s %s' "$policy" "$1" "$boolean" "$denials" "$labels" "$domains" "$verdict")")
    say "${table[-1]}"
}

# negative NAME PROBE..: must fail enforcing, and succeed when SELinux only warns.
negative() {
    local what=$1 enforcing=0 permissive=0 verdict=ok probe
    shift
    # For the guest's shell.
    probe=$(printf '%q ' bash /mnt/guest.sh probe "$@")
    guest "$probe" >"$work/said" 2>&1 || enforcing=$?
    # One connection: they are slow.
    guest "setenforce 0; $probe; status=\$?; setenforce 1; exit \$status" >>"$work/said" 2>&1 || permissive=$?
    if [ $enforcing = 0 ] || [ $permissive != 0 ]; then
        verdict=FAILED
        failures=$((failures + 1))
        cat "$work/said"
    fi
    table+=("$(printf '%-8s %-66s enforcing: %-7s permissive: %-7s %s' "$policy" "$what" "$([ $enforcing = 0 ] && echo works || echo denied)" \
        "$([ $permissive = 0 ] && echo works || echo fails)" "$verdict")")
    say "${table[-1]}"
}

# --- the flows ---

flows() {
    local part
    guest "setsebool teleport_agent_confined $boolean"
    for part in ${FLOWS:-life mirror sealed}; do "$part"; done
}

service='systemctl start teleport-update.service'

life() {
    flow "others' directories" 0 "bash /mnt/guest.sh others"
    flow "control: a denial is seen" 0 "bash /mnt/guest.sh control"
    flow "package script again" 0 ". /mnt/scriptlets.sh; selinux_install"
    # A directory and settings that somebody else made: the updater has them labelled.
    guest "bash /mnt/guest.sh prepare"
    release 1.0.0 1 healthy
    flow "enable (by hand)" 0 "teleport-update enable $cluster_flags && systemctl enable --now teleport && bash /mnt/guest.sh runs 1.0.0 && bash /mnt/guest.sh asked"
    release 2.0.0 2 healthy true
    flow "update (unit)" 0 "$service && bash /mnt/guest.sh runs 2.0.0 && bash /mnt/guest.sh asked"
    release 2.1.0 2 healthy true
    # By the bootstrap, which hands over to 2.0.0's updater; by a timer that fires.
    flow "update (timer, hand-over)" 0 "bash /mnt/guest.sh timer && bash /mnt/guest.sh runs 2.1.0 && bash /mnt/guest.sh saw teleport_update_t"
    name_version 2.0.0
    # As if the agent had first been started from a shell: the database's label has another user, which is kept.
    flow "downgrade (unit)" 0 "chcon -u unconfined_u /var/lib/teleport/proc/sqlite.db && $service && ls -Z /var/lib/teleport/proc/sqlite.db | grep -q ^unconfined_u && bash /mnt/guest.sh runs 2.0.0"
    release 3.0.0 3 crash-loop
    flow "broken update, rolled back" 1 "$service; status=\$?; bash /mnt/guest.sh runs 2.0.0 || exit 99; exit \$status"
    release 3.1.0 2 hangs-on-version
    flow "hanging release, refused" 1 "bash /mnt/guest.sh watch teleport_update_check_t & $service; status=\$?; wait; bash /mnt/guest.sh saw teleport_update_check_t || exit 99; exit \$status"
    release 4.0.0 4 healthy
    # Without the timer, which on a slow machine updates before the boot's end is seen.
    guest "systemctl -q disable teleport-update.timer; $service --no-block; bash /mnt/guest.sh until-journal; sync" >"$work/said" 2>&1 || say "no journal was seen: $(cat "$work/said")"
    "$vm_sh" cut "$name"
    guest "setsebool teleport_agent_confined $boolean; mount -o ro,context=system_u:object_r:bin_t:s0 /dev/vdb /mnt; systemctl -q enable teleport-update.timer; systemctl restart teleport"
    flow "power cut, boot, recovery" 0 "test ! -e /var/lib/teleport/versions/.journal && journalctl -b -u teleport-update-recover | grep -q . && bash /mnt/guest.sh runs 2.0.0"
    flow "update after it (unit)" 0 "$service && bash /mnt/guest.sh runs 4.0.0"
    flow "verify --repair (by hand)" 0 "echo x >>/var/lib/teleport/versions/4.0.0/bin/tsh; teleport-update verify --repair"
    flow "rollback (by hand)" 0 "teleport-update rollback && bash /mnt/guest.sh runs 2.0.0"
    release 4.1.0 4 healthy
    flow "update (by hand)" 0 "teleport-update update --now && bash /mnt/guest.sh runs 4.1.0"
    release 4.2.0 4 crash-loop
    flow "broken update (by hand)" 1 "teleport-update update --now; status=\$?; bash /mnt/guest.sh runs 4.1.0 || exit 99; exit \$status"
    name_version 2.0.0
    flow "downgrade (by hand)" 0 "teleport-update update --now && bash /mnt/guest.sh runs 2.0.0"
    flow "a further installation" 0 "teleport-update --install-suffix dev enable $cluster_flags"
    name_version 4.1.0
    flow "update of both (units)" 0 "$service && systemctl start teleport-update_dev.service && readlink /opt/teleport/dev/bin/teleport | grep -q /4.1.0/"
    flow "uninstall (both)" 0 "teleport-update --install-suffix dev uninstall && systemctl disable --now teleport && teleport-update uninstall"

}

# A mirror on the host itself, where docs/images.md puts it.
mirror() {
    guest "rm -rf /var/lib/teleport /var/lib/teleport_dev /srv/mirror; mkdir /srv/mirror"
    release 4.0.0 4 healthy
    release 4.1.0 4 healthy
    "$vm_sh" put "$name" "$work"/cluster/cdn/*-v4.[01].0-* /srv/mirror/
    guest "chmod -R a+rX,go-w /srv/mirror; restorecon -R /srv/mirror; bash /mnt/guest.sh prepare"
    name_version 4.0.0
    flow "a mirror in /srv (by hand)" 0 "teleport-update enable --proxy $addr --ca-file /etc/cluster-ca.pem --base-url file:///srv/mirror && systemctl enable --now teleport && bash /mnt/guest.sh runs 4.0.0"
    name_version 4.1.0
    flow "update from it (unit)" 0 "$service && bash /mnt/guest.sh runs 4.1.0"
    flow "uninstall" 0 "systemctl disable --now teleport && teleport-update uninstall"
}

# Links elsewhere, for an image whose /usr is sealed.
sealed() {
    release 4.0.0 4 healthy
    release 4.1.0 4 healthy
    guest "rm -rf /var/lib/teleport; bash /mnt/guest.sh seal; bash /mnt/guest.sh prepare"
    name_version 4.0.0
    flow "--path, sealed /usr (by hand)" 0 "teleport-update enable $cluster_flags --path /var/lib/teleport/bin && systemctl enable --now teleport && bash /mnt/guest.sh runs 4.0.0 && /var/lib/teleport/bin/teleport version"
    name_version 4.1.0
    flow "update of it (unit)" 0 "$service && bash /mnt/guest.sh runs 4.1.0"
    release 4.3.0 4 crash-loop
    flow "broken update of it (unit)" 1 "$service; status=\$?; bash /mnt/guest.sh runs 4.1.0 || exit 99; exit \$status"
    flow "its uninstall" 0 "systemctl disable --now teleport && teleport-update uninstall"
    guest "bash /mnt/guest.sh unseal"
}

# The real package on a machine that has never seen the module, and what docs/selinux.md tells an operator.
package() {
    boolean=off
    guest "bash /mnt/guest.sh prepare"
    flow "dpkg -i" 0 "dpkg -i /mnt/teleport-update.deb && semodule -lfull | grep -q '^200 teleport-update ' && bash /mnt/guest.sh host"
    flow "control: a denial is seen" 0 "bash /mnt/guest.sh control"
    release 1.0.0 1 healthy
    flow "enable (by hand)" 0 "teleport-update enable --proxy $addr --base-url $base_url --ca-file /etc/cluster-ca.pem && systemctl enable --now teleport && bash /mnt/guest.sh runs 1.0.0"
    release 2.0.0 2 healthy
    flow "update (unit)" 0 "systemctl start teleport-update.service && bash /mnt/guest.sh runs 2.0.0"
    flow "the page: denials, labels" 0 "ls -ZR /var/lib/teleport/versions >/dev/null && ausearch -m avc,user_avc,selinux_err -ts recent --input-logs </dev/null | grep -q 'teleport_update'"
    flow "the page: permissive domain" 0 "semanage permissive -a teleport_update_t && semanage permissive -d teleport_update_t"
    flow "the page: data elsewhere" 0 "mkdir -p /srv/teleport/proc && semanage fcontext -a -e /var/lib/teleport /srv/teleport && restorecon -R /srv/teleport && ls -dZ /srv/teleport/proc | grep -q teleport_var_lib_t && semanage fcontext -d -e /var/lib/teleport /srv/teleport"
    boolean=on
    flow "the page: the agent confined" 0 "setsebool -P teleport_agent_confined on && systemctl restart teleport && bash /mnt/guest.sh runs 2.0.0"
    boolean=off
    flow "the page: and not" 0 "setsebool -P teleport_agent_confined off && systemctl restart teleport && bash /mnt/guest.sh runs 2.0.0"
    flow "dpkg --remove, agent stays" 0 "dpkg --remove teleport-update && semodule -l | grep -qx teleport-update && bash /mnt/guest.sh runs 2.0.0"
    flow "dpkg -i again, uninstall" 0 "dpkg -i /mnt/teleport-update.deb && systemctl disable --now teleport && teleport-update uninstall"
    guest "dpkg --purge teleport-update && ! semodule -l | grep -qx teleport-update && ! restorecon -Rnv /usr/lib /var/lib/teleport | grep ." ||
        { failures=$((failures + 1)); say "FAILED: dpkg --purge leaves the module or its labels"; }
}

negatives() {
    negative "the updater writes /etc/shadow" teleport_update_exec_t 'echo x >>/etc/shadow'
    negative "the updater writes /etc/teleport.yaml" teleport_update_exec_t 'echo "#" >>/etc/teleport.yaml'
    negative "the updater makes a program in /usr/bin" teleport_update_exec_t 'echo >/usr/bin/planted'
    negative "the updater reads root's home" teleport_update_exec_t 'cat /root/secret'
    negative "a program being checked reads updates.yaml" check 'cat /var/lib/teleport/versions/updates.yaml'
    negative "a program being checked writes a version" check 'echo >/var/lib/teleport/versions/9.9.9/planted'
    negative "a program being checked reads the agent's database" check 'cat /var/lib/teleport/proc/sqlite.db'
    negative "a program being checked runs another program" check '/usr/bin/id'
    negative "the agent writes updates.yaml" teleport_exec_t 'echo "#" >>/var/lib/teleport/versions/updates.yaml'
    negative "the agent makes a file in a version" teleport_exec_t 'echo >/var/lib/teleport/versions/9.9.9/planted'
    negative "the agent changes its own program" teleport_exec_t 'echo >>/var/lib/teleport/versions/9.9.9/bin/teleport'
    negative "the agent reads a copy of the database" teleport_exec_t 'cat /var/lib/teleport/versions/9.9.9/backup/sqlite.db'
    negative "the agent reads the updater's credentials" teleport_exec_t 'cat /var/lib/teleport/versions/.credentials'
    negative "the agent runs the updater" teleport_exec_t '/usr/lib/teleport-update/teleport-update version'
    negative "the agent writes /etc/shadow" teleport_exec_t 'echo x >>/etc/shadow'
    negative "another daemon (chronyd) reads the updater's credentials" chronyd_exec_t 'cat /var/lib/teleport/versions/.credentials'
    negative "another daemon (chronyd) reads a copy of the database" chronyd_exec_t 'cat /var/lib/teleport/versions/9.9.9/backup/sqlite.db'
    negative "another daemon (chronyd) reads the agent's data" chronyd_exec_t 'cat /var/lib/teleport/proc/sqlite.db'
}

# shellcheck source=server.sh
. "$here/server.sh"

# --- setting up ---

# The parts under one policy: one machine for those that need just the module, and one that has never seen it.
under_policy() {
    local part machine=''
    for part in "${parts[@]}"; do
        # For its scripts dpkg asks for a domain (dpkg_script_t) that Fedora's policy does not have; rpm needs another machine.
        if [ "$part" = package ] && [ "$policy" = fedora ]; then
            table+=("fedora   package: not tried: dpkg runs no script under this policy")
            continue
        fi
        say "$policy's policy: $part"
        if [ "$part" = package ]; then machine=''; fi
        if [ -z "$machine" ]; then
            BED_OWNER=$$ "$vm_sh" up "$name" '' "$work/files.img"
            machine=up
            guest "bash /mnt/guest.sh host"
            if [ "$part" != package ]; then guest "bash /mnt/guest.sh setup"; fi
        fi
        boolean=$part
        case $part in
        off | on) flows ;;
        probes)
            boolean=on
            guest "setsebool teleport_agent_confined on; rm -rf /var/lib/teleport; bash /mnt/guest.sh prepare"
            negatives
            ;;
        server)
            boolean=off
            # The probes' denials are none of the server's.
            guest "setsebool teleport_agent_confined off; bash /mnt/guest.sh forget"
            server
            ;;
        package)
            package
            machine=''
            ;;
        esac
    done
    [ -n "${KEEP_VM:-}" ] || "$vm_sh" down "$name"
}

main() {
    work=$(mktemp -d)
    trap take_down EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    "$vm_sh" can
    mkdir "$work/files"
    "$here/../../selinux/build.sh" "$work/files/teleport-update.cil"
    cp "$here/guest.sh" "$here/names.py" "$here/../../selinux/scriptlets.sh" "$here"/../../systemd/teleport-update* "$work/files/"
    for program in "$updater:teleport-update" "$agent:toy-agent"; do
        cp "${program%:*}" "$work/files/${program#*:}"
        # A debug build's symbols cost an emulated machine seconds.
        strip "$work/files/${program#*:}" 2>/dev/null || true
    done
    "$here/../../packaging/build.sh" --out "$work/package" --version 1.0.0 --level 0 \
        --binary "amd64=$work/files/teleport-update" --selinux "$work/files/teleport-update.cil" >/dev/null
    cp "$work"/package/*.deb "$work/files/teleport-update.deb"
    server_files "$fleet" "$work/files"
    start_cluster "$cluster" "$agent" "$work/files/teleport-update" "$work/cluster"
    cluster_flags="--proxy $addr --base-url $base_url --ca-file /etc/cluster-ca.pem"
    cp "$work/cluster/ca.pem" "$work/files/"
    "$vm_sh" files "$work/files" "$work/files.img"

    for policy in "${policies[@]}"; do
        unset VM_POLICY
        if [ "$policy" = fedora ]; then
            if [ -z "${FEDORA_POLICY:-}" ]; then
                say "FEDORA'S POLICY IS NOT TRIED: no FEDORA_POLICY, the archive with it"
                table+=("fedora   not tried: no FEDORA_POLICY, the archive with it")
                continue
            fi
            export VM_POLICY=$FEDORA_POLICY
        fi
        under_policy
    done

    printf '\n%-8s %-34s %-8s %8s %8s  %s\n' policy flow confined denials relabels 'domains seen'
    printf '%s\n' "${table[@]}"
    if [ $failures != 0 ]; then
        echo "$failures failed"
        exit 1
    fi
}

main
