#!/bin/bash
# matrix.sh DIR   prints what the lives have left in DIR (lines of bed, flow, result) as one table, flows by beds.
set -euo pipefail

cat "$1"/* | awk -F '\t' '
    !($1 in column) { column[$1] = ++columns; bed[columns] = $1 }
    !($2 in row) { row[$2] = ++rows; flow[rows] = $2 }
    { cell[row[$2], column[$1]] = $3 }
    END {
        printf "| flow |"; for (c = 1; c <= columns; c++) printf " %s |", bed[c]; print ""
        printf "|---|"; for (c = 1; c <= columns; c++) printf "---|"; print ""
        for (r = 1; r <= rows; r++) {
            printf "| %s |", flow[r]
            for (c = 1; c <= columns; c++) printf " %s |", ((r, c) in cell) ? cell[r, c] : "-"
            print ""
        }
    }'
