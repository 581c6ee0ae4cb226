
# First what the server knows: names of groups. Each is taken as it is: nothing of it is expanded.
_teleport_fleet() {
    local words word quoted typed
    COMPREPLY=()
    read -ra words <<<"${COMP_LINE:0:COMP_POINT}"
    typed=${words[-1]}
    if [[ ${COMP_LINE:0:COMP_POINT} == *[[:space:]] ]]; then
        words+=("")
        typed=
    fi
    while IFS= read -r word; do
        # Bash replaces what stands behind the last `=` alone.
        word=${word#"${typed%"$2"}"}
        printf -v quoted %q "$word"
        COMPREPLY+=("$quoted")
    done < <(teleport-fleet complete -- "${words[@]:1}" 2>/dev/null)
    [[ ${#COMPREPLY[@]} -gt 0 ]] || _teleport__fleet "$@"
}
complete -F _teleport_fleet -o bashdefault -o default teleport-fleet
