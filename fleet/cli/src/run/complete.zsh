
# First what the server knows: names of groups.
_teleport-fleet() {
    local -a found
    found=("${(@f)$(teleport-fleet complete -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n $found[1] ]]; then
        compadd -a found
    else
        _teleport-fleet-words "$@"
    fi
}
