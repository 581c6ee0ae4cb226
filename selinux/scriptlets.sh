# shellcheck shell=sh
# Bodies for the packages' scripts: loading the policy module, and labelling what it labels. POSIX sh. The packages'
# scripts contain this file and call one function:
#
#   selinux_install    deb postinst (configure), rpm %posttrans: on every installation and upgrade
#   selinux_remove     deb postrm (remove), rpm %postun (when $1 is 0): when the package goes
#
# A host or image without SELinux: nothing is done. Whatever fails is a warning: no package installation fails for it.

selinux_module=teleport-update
selinux_file=/usr/share/selinux/packages/teleport-update.cil
# Above the distribution's modules (100), below an administrator's own (400).
selinux_priority=200
# The digest of the module that was loaded last.
selinux_note=/var/lib/teleport-update/selinux-module

selinux_warn() { echo "teleport-update: SELinux: $*" >&2; }

# Sets selinux_policy, the policy's name, and selinux_mode. live: the kernel has SELinux on; image: a policy is installed,
# but this kernel does not use it (a chroot, a build of an image); none.
selinux_look() {
    selinux_mode=none
    if ! command -v semodule >/dev/null 2>&1 || ! [ -r /etc/selinux/config ]; then return 0; fi
    # shellcheck disable=SC1091 # the host's
    selinux_policy=$(. /etc/selinux/config >/dev/null 2>&1 && echo "${SELINUXTYPE:-}") || selinux_policy=
    # The store of modules: image modes of Fedora and RHEL have it in /etc.
    for selinux_store in /etc/selinux /var/lib/selinux; do
        selinux_stored=$selinux_store/$selinux_policy/active/modules/$selinux_priority/$selinux_module
        if [ -d "$selinux_stored" ]; then break; fi
    done
    if command -v selinuxenabled >/dev/null 2>&1 && selinuxenabled; then
        selinux_mode=live
        selinux_semodule="semodule -X $selinux_priority"
    elif [ -n "$selinux_policy" ] && [ -d "/etc/selinux/$selinux_policy/policy" ]; then
        selinux_mode=image
        selinux_semodule="semodule -n -X $selinux_priority"
    fi
}

# 0 if this very module is in the store. The store keeps it compressed, and `semodule -E` may not write where we could read
# it: so what was loaded is noted.
selinux_is_loaded() {
    [ -d "$selinux_stored" ] && [ "$(cat $selinux_note 2>/dev/null)" = "$(sha256sum <$selinux_file)" ]
}

# Labels those of the given trees that are there, and nothing else.
selinux_label() {
    for selinux_path in "$@"; do
        if ! [ -e "$selinux_path" ] && ! [ -L "$selinux_path" ]; then continue; fi
        case $selinux_mode in
        live) restorecon -R "$selinux_path" ;;
        image) setfiles "/etc/selinux/$selinux_policy/contexts/files/file_contexts" "$selinux_path" ;;
        esac || selinux_warn "cannot label $selinux_path; run: restorecon -R $selinux_path"
    done
}

# All that the module has a label for.
selinux_label_all() {
    selinux_label /usr/lib/teleport-update /usr/bin/teleport-update /usr/local/lib/systemd \
        /var/lib/teleport /var/lib/teleport_* /opt/teleport/*/bin
}

selinux_install() {
    selinux_look
    [ $selinux_mode != none ] && [ -r $selinux_file ] || return 0
    # Made here, so that it has its label before the first link is put into it. A sealed /usr has it or never will.
    mkdir -p /usr/local/lib/systemd/system 2>/dev/null || :
    if selinux_is_loaded; then
        selinux_label /usr/lib/teleport-update /usr/bin/teleport-update /usr/local/lib/systemd
        return 0
    fi
    # Some seconds: the whole policy is linked again. Its words are not kept: load_policy may not write into a pipe of ours.
    if ! $selinux_semodule -i $selinux_file >/dev/null 2>&1; then
        selinux_warn "the policy module cannot be loaded, the updater runs without it; to see why:" \
            "$selinux_semodule -i $selinux_file"
        return 0
    fi
    if mkdir -p ${selinux_note%/*}; then sha256sum <$selinux_file >$selinux_note; fi
    selinux_label_all
}

selinux_remove() {
    selinux_look
    [ $selinux_mode != none ] && [ -d "$selinux_stored" ] || return 0
    # An agent that stays needs it: without its types systemd may not run a program below /var/lib.
    for selinux_path in /var/lib/teleport/versions/*/bin/teleport /var/lib/teleport_*/versions/*/bin/teleport; do
        if [ -e "$selinux_path" ]; then
            selinux_warn "the policy module stays, for $selinux_path; to remove it later: $selinux_semodule -r $selinux_module"
            return 0
        fi
    done
    rm -rf ${selinux_note%/*}
    if ! $selinux_semodule -r $selinux_module >/dev/null 2>&1; then
        selinux_warn "the policy module cannot be removed; to see why: $selinux_semodule -r $selinux_module"
        return 0
    fi
    selinux_label_all
}
