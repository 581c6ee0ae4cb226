# shellcheck shell=sh disable=SC2034,SC2154
# After selinux/scriptlets.sh: the same for the rollout server's module, by its own names, with what it labels.

selinux_module=teleport-fleet
selinux_file=/usr/share/selinux/packages/teleport-fleet.cil

selinux_warn() { echo "teleport-fleet: SELinux: $*" >&2; }

selinux_label_all() {
    selinux_label /usr/bin/teleport-fleet /usr/lib/systemd/system/teleport-fleet.service /etc/teleport-fleet.yaml \
        /etc/teleport-fleet /var/lib/teleport-fleet /run/teleport-fleet
}

# Each time, for a note of what is loaded would have to lie where the server's user cannot write.
selinux_install() {
    selinux_look
    [ "$selinux_mode" != none ] && [ -r $selinux_file ] || return 0
    if ! $selinux_semodule -i $selinux_file >/dev/null 2>&1; then
        selinux_warn "the policy module cannot be loaded, the server runs without it; to see why:" \
            "$selinux_semodule -i $selinux_file"
        return 0
    fi
    selinux_label_all
}

selinux_remove() {
    selinux_look
    [ "$selinux_mode" != none ] && [ -d "$selinux_stored" ] || return 0
    if ! $selinux_semodule -r $selinux_module >/dev/null 2>&1; then
        selinux_warn "the policy module cannot be removed; to see why: $selinux_semodule -r $selinux_module"
        return 0
    fi
    selinux_label_all
}
