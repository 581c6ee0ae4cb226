selinux_install() { :; }
selinux_remove() { :; }
