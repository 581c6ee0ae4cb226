
# What the server knows: names of groups.
function __fish_teleport_fleet_names
    set -l words (commandline -opc) (commandline -ct)
    teleport-fleet complete -- $words[2..-1] 2>/dev/null
end
complete -c teleport-fleet -f -n 'count (__fish_teleport_fleet_names) >/dev/null' -a '(__fish_teleport_fleet_names)'
complete -c teleport-fleet -l group -r -f -a '(__fish_teleport_fleet_names)'
complete -c teleport-fleet -l for -r -f -a '(__fish_teleport_fleet_names)'
