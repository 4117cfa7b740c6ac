# Every row of the GPU against row 0 of the CPU, and how fast the rows are.
"$rows" >"$dir/rows.txt" 2>&1
code=$?
say_if "every row beside row 0 of the CPU" "$(tail -1 "$dir/rows.txt")" "none wrong" [ $code -eq 0 ]
"$rows" --large >"$dir/rows-large.txt" 2>&1
code=$?
say_if "tensors of more than 2^31 numbers" "$(tail -1 "$dir/rows-large.txt")" "none wrong" [ $code -eq 0 ]
"$rows_time" >"$dir/rows_time.md" 2>&1
say "times of rows" "$(grep -c '^|' "$dir/rows_time.md") lines in rows_time.md" "" -
