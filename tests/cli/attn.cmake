# Command lines of attn and what they must answer (see cli_case in ../cli.cmake).

# attn_case(NAME EXIT STDERR-REGEX arguments...)
function(attn_case name exit error)
  cli_case(attn_${name} PROGRAM attn ARGS ${ARGN} EXIT ${exit} STDERR "^attn: ${error}\n$")
endfunction()

# ---- usage: one line that names the option, the value and what is allowed ----
set(blocks "is not allowed; expected an integer from 1 to 1048576")
set(lengths "is not allowed; expected an integer from 0 to [0-9]+")
attn_case(no_algorithm 2 "the algorithm is missing; expected standard, fa1, fa1-shipped[^\n]*")
attn_case(unknown_algorithm 2 "unknown algorithm 'fa1-shiped'; did you mean 'fa1-shipped'\\?[^\n]*" fa1-shiped)
attn_case(far_algorithm 2 "unknown algorithm 'quicksort'; [^\n]*standard, fa1, fa1-shipped[^\n]*" quicksort)
attn_case(two_algorithms 2 "unexpected argument 'fa1'; see --help" fa2 fa1)
attn_case(mistyped_option 2 "unknown option '--sqlen'; did you mean '--seqlen'\\?" fa2 --sqlen 5)
attn_case(option_of_others 2 "--order is not an option of attn; --help lists them" fa2 --order lpt)
attn_case(unknown_profile 2 "unknown hardware profile 'h10'; did you mean 'h100'\\? [^\n]*" fa2 --hw h10)
attn_case(block_q_zero 2 "--block-q: '0' ${blocks}" fa2 --block-q 0)
attn_case(block_k_zero 2 "--block-k: '0' ${blocks}" fa1 --block-k 0)
attn_case(block_negative 2 "--block-k: '-16' ${blocks}" fa2 --block-k -16)
attn_case(block_garbage 2 "--block-k: '16x' ${blocks}" fa2 --block-k 16x)
attn_case(block_too_large 2 "--block-q: '2m' ${blocks}" fa2 --block-q 2m)
attn_case(heads_do_not_divide 2 "--kv-heads: 3 does not divide --heads 8; [^\n]*" fa2 --kv-heads 3 --heads 8)
attn_case(more_kv_heads 2 "--kv-heads: 4 does not divide --heads 2; [^\n]*" fa2 --kv-heads 4 --heads 2)
attn_case(kv_heads_zero 2 "--kv-heads: '0' is not allowed; expected an integer from 1 to 65536" fa2 --kv-heads 0)
attn_case(seqlen_negative 2 "--seqlen: '-5' ${lengths}" fa2 --seqlen -5)
attn_case(seqlen_fraction 2 "--seqlen: '1.5k' ${lengths}" fa2 --seqlen 1.5k)
attn_case(seqlen_garbage 2 "--seqlen: '3g' ${lengths}" fa2 --seqlen 3g)
attn_case(seqlen_past_64_bits 2 "--seqlen: '18446744073709551616' ${lengths}" fa2 --seqlen 18446744073709551616)
attn_case(suffix_past_64_bits 2 "--seqlen: '18446744073709551615k' ${lengths}" fa2 --seqlen 18446744073709551615k)
attn_case(empty_item 2 "--seqlen: '' ${lengths}" fa2 --seqlen 1,,2)
attn_case(bad_item_in_list 2 "--seqlen: '4kk' ${lengths}" fa2 --seqlen 1k,4kk,8k)
attn_case(seqlen_past_the_limit 2 "sequence length 2148532224 is not allowed; expected 0 to 2147483648" fa2 --seqlen 2049m)
attn_case(head_dim_zero 2 "--head-dim: '0' is not allowed; expected an integer from 1 to 512" fa2 --head-dim 0)
attn_case(head_dim_large 2 "--head-dim: '513' is not allowed; expected an integer from 1 to 512" fa2 --head-dim 513)
attn_case(sram_zero 2 "--sram: '0' is not allowed; expected an integer from 1 to [0-9]+" fa1 --sram 0)
attn_case(window_half 2 "--window: '1' is not allowed; expected two integers L,R from -1[^\n]*" fa2 --window 1)
attn_case(window_negative 2 "--window: '-2,0' is not allowed; [^\n]*" fa2 --window -2,0)
attn_case(scale_nan 2 "--scale: 'nan' is not allowed; expected a finite number" fa2 --scale nan)
attn_case(scale_infinite 2 "--scale: '1e999' is not allowed; expected a finite number" fa2 --scale 1e999)
attn_case(dropout_one 2 "--dropout: '1' is not allowed; expected a number from 0 to below 1" fa2 --dropout 1)
attn_case(threshold_of_fa4 2 "--threshold: not allowed with fa2 --pass fwd; only the forward pass of fa4 has it" fa2 --mode numeric --threshold 8)
attn_case(poly_share_backward 2 "--poly-share: not allowed with fa4 --pass bwd; only the forward pass of fa4 has it"
          fa4 --hw b200 --pass bwd --poly-share 0.5)
attn_case(threshold_without_data 2 "--threshold: not allowed with --mode count, which has no data to compare with it; give --rescale-share"
          fa4 --hw b200 --threshold 8)
attn_case(rescale_rows_alone 2 "--rescale-rows: not allowed without --threshold, on which they decide" fa4 --hw b200 --mode numeric --rescale-rows 1)
attn_case(rescale_rows_none 2 "--rescale-rows: '0' is not allowed; expected an integer from 1 to 128" fa4 --hw b200 --mode numeric --threshold 8 --rescale-rows 0)
attn_case(share_with_data 2 "--rescale-share: not allowed with --mode numeric, where the data decides; give --threshold"
          fa4 --hw b200 --mode numeric --rescale-share 0.1)
attn_case(poly_share_in_sixteenths 2 "--poly-share: '0.1' is not allowed; expected a multiple of 1/16 = 0.0625" fa4 --hw b200 --poly-share 0.1)
attn_case(rescale_share_large 2 "--rescale-share: '2' is not allowed; expected a number from 0 to 1" fa4 --hw b200 --rescale-share 2)
set(splits "is not allowed; expected auto or an integer from 1 to 65536")
attn_case(splits_of_decode 2 "--splits: not allowed with fa2; only decode has it" fa2 --splits 3)
attn_case(packing_of_decode 2 "--packing: not allowed with fa3; only decode has it" fa3 --packing always)
attn_case(merge_of_decode 2 "--merge: not allowed with standard; only decode has it" standard --merge tree)
attn_case(splits_zero 2 "--splits: '0' ${splits}" decode --splits 0)
attn_case(splits_word 2 "--splits: 'automatic' ${splits}" decode --splits 4,automatic)
attn_case(splits_too_many 2 "--splits: '65537' ${splits}" decode --splits 65537)
attn_case(packing_mistyped 2 "--packing: 'allways' is not allowed; expected one-query, always or never; did you mean 'always'\\?" decode --packing allways)
attn_case(dropout_of_decode 2 "--dropout: not allowed with decode, which has none" decode --dropout 0.1)
attn_case(bad_dtype 2 "--dtype: 'bf61' is not allowed; expected f64, f32, bf16, fp16 or fp8[^\n]*" fa2 --dtype bf61)
attn_case(bad_l2 2 "--l2: 'perfect' is not allowed; expected none, ideal or simulated" fa2 --l2 perfect)

# ---- what cannot exist: exit 3, with what does not fit ----
attn_case(tile_does_not_fit 3
          "fa2_forward: tile K does not fit in shared memory of h100: needs 131072 bytes, 101376 of 232448 are left"
          fa2 --block-q 256 --block-k 256 --head-dim 256)
attn_case(registers_do_not_fit 3
          "fa2_forward: tile [A-Za-z_]+ does not fit in registers of h100: needs [0-9]+ bytes, [0-9]+ of [0-9]+ are left"
          fa2 --block-q 256 --block-k 128 --head-dim 128)
attn_case(paper_tiles_do_not_fit 3
          "fa1_forward: tile K does not fit in shared memory of h100: needs 262144 bytes, 232448 of 232448 are left"
          fa1 --sram 1m --head-dim 128)
attn_case(no_tcgen05 3 "fa4_forward needs tcgen05: h200 has no tcgen05" fa4 --hw h200 --head-dim 128)
attn_case(product_overflows 3 "rows of all heads overflows 64 bits: 281474976710656 \\* 2147483648"
          fa2 --seqlen 2048m --batch 4096m --heads 65536)
attn_case(count_overflows 3 "[A-Za-z_ ]+ overflows 64 bits: [0-9]+ \\* [0-9]+" fa2 --seqlen 2048m --block-q 1 --block-k 1)
attn_case(walk_too_long 3 "the walk is too long: 4294967296 tile pairs, at most [0-9]+;[^\n]* closed form: 201326592 elements read[^\n]*"
          fa2 --seqlen 1m --block-q 16 --block-k 16)
attn_case(computation_too_long 3 "the computation is too long: 2473901162496 FLOP, at most [0-9]+; [^\n]*"
          fa2 --mode numeric --seqlen 768k --head-dim 1)
attn_case(decode_backward 3 "decode has no backward pass[^\n]*" decode --pass bwd)
attn_case(parts_do_not_fit 3 "decode_combine: tile [A-Za-z ]+ does not fit in registers of h100: needs [0-9]+ bytes, [0-9]+ of 65536 are left"
          decode --seqlen 1 --seqlen-k 1k --head-dim 128 --splits 8192)
attn_case(too_long_for_l2 3 "fa2_forward: a head moves more than 33554432 tiles, too many for the simulated L2; [^\n]*"
          fa2 --l2 simulated --seqlen 1m --block-q 128 --block-k 128)
attn_case(too_many_for_l2 3 "fa2_forward: the launch moves [0-9]+ tiles, the simulated L2 follows at most 268435456; [^\n]*"
          fa2 --l2 simulated --heads 65536 --seqlen 8k)
attn_case(no_backward 3 "fa1 has no backward pass[^\n]*" fa1 --pass bwd)
attn_case(fp8_is_counted_only 3 "--dtype fp8: fa2 --pass fwd can only be counted; fa3 computes its forward pass in FP8" fa2 --mode numeric --dtype fp8)
attn_case(quantise_of_fa3 2 "--quantise: not allowed with fa2 --pass fwd --dtype fp8; only the forward pass of fa3 with --dtype fp8 has it"
          fa2 --dtype fp8 --quantise block)
attn_case(rotate_of_fp8 2 "--rotate: not allowed with fa3 --pass fwd --dtype bf16; only the forward pass of fa3 with --dtype fp8 has it" fa3 --rotate qk)
attn_case(bad_quantise 2 "--quantise: 'blok' is not allowed; expected none, tensor, block or row; did you mean 'block'\\?" fa3 --dtype fp8 --quantise blok)
attn_case(bad_rotate 2 "--rotate: 'v' is not allowed; expected none, qk or qkv[^\n]*" fa3 --dtype fp8 --rotate v)

# A chip whose tensor cores know wgmma only: FlashAttention-2's mma.sync kernels cannot run on it.
cli_case(attn_chip_lacks_instruction PROGRAM attn EXIT 3
         SCRIPT "sed 's/^name .*/name = wgmma_only/; s/^\\(mma_sync_bf16_flops_per_cycle_per_sm *=\\) [0-9]*/\\1 0/' \
                 '${CMAKE_SOURCE_DIR}/hw_profiles/h100.txt' >chip.txt; \"$PROGRAM\" fa2 --hw ./chip.txt"
         STDERR "^attn: fa2_forward needs mma.sync: wgmma_only has no mma.sync\n$")

# A sweep whose second point fails writes nothing.
attn_case(sweep_fails_later 3 "fa2_forward: tile [^\n]*" fa2 --block-k 64,4096)

# ---- memory, full disks, closed pipes ----
# 64k x 64k scores in float64 are 32 GiB: refused before anything is allocated.
cli_case(attn_out_of_memory PROGRAM attn ARGS standard --mode numeric --dtype f64 --seqlen 64k --head-dim 1 EXIT 4
         STDERR "^attn: out of memory: S needs 4294967296 x 8 bytes\n$")
foreach(format text md csv json)
  cli_case(attn_${format}_to_full_disk PROGRAM attn EXIT 4 SCRIPT "\"$PROGRAM\" fa2 --seqlen 64 --format ${format} >/dev/full"
           STDERR "cannot write standard output: ")
endforeach()
cli_case(attn_full_device PROGRAM attn ARGS fa2 --seqlen 64 -o /dev/full EXIT 4 STDERR "cannot write /dev/full: ")
cli_case(attn_no_such_directory PROGRAM attn ARGS fa2 --seqlen 64 -o no/such/a.json EXIT 4 STDERR "cannot write no/such/a.json: ")
cli_case(attn_closed_pipe PROGRAM attn EXIT 4
         SCRIPT "{ sleep 0.2; \"$PROGRAM\" fa2 --seqlen 64 && echo 0 >code || echo $? >code; } | true; exit $(cat code)"
         STDERR "cannot write standard output: ")
# A file that was there stays as it was when the run fails.
cli_case(attn_keeps_old_file PROGRAM attn EXIT 3
         SCRIPT "echo old >a.json; \"$PROGRAM\" fa2 --heads 65536 --seqlen 8k --l2 simulated -o a.json; code=$?; \
                 test \"$(cat a.json)\" = old && test \"$(ls)\" = a.json && exit $code"
         STDERR "the simulated L2")

# ---- what works ----
set(zeros "hbm_read_elements +0 +0 +ok.*matmul_flops +FLOP +0 +0 +ok.*sram_peak_bytes +bytes +0")
cli_case(attn_batch_zero PROGRAM attn ARGS fa2 --batch 0 STDOUT "${zeros}")
cli_case(attn_no_queries PROGRAM attn ARGS fa2 --seqlen 0 --seqlen-k 5 STDOUT "${zeros}")
# A simulated L2: what fits is read once, what does not more often; between the two, or the program ends with 1.
cli_case(attn_l2_fits PROGRAM attn ARGS fa2 --hw h200 --heads 16 --seqlen 1k --head-dim 128 --l2 simulated
         STDOUT "hbm_read_bytes +bytes +12,582,912 *\n.*fa2_forward +30.00 +128 +71.303 +82.35 +12.583 +1.000 +0.000 +4.260")
cli_case(attn_l2_wave_cuts_heads PROGRAM attn ARGS fa2 --hw h200 --heads 16 --seqlen 16k --head-dim 128 --l2 simulated
         STDOUT "hbm_read_bytes +bytes +260,046,848 *\n.*fa2_forward +30.00 +264 +17,246.978 +98.49 +260.047 +1.292 +60.056 +8.102")
cli_case(attn_l2_backward PROGRAM attn ARGS fa2 --hw h200 --heads 16 --seqlen 4k,8k --head-dim 128 --pass bwd --causal --l2 simulated
         STDOUT "4,096 +fa2_bwd_dot .*8,192 +fa2_bwd_convert ")
cli_case(attn_l2_unlimited PROGRAM attn ARGS standard --hw unbounded --seqlen 1k --l2 simulated STDOUT "standard_pv +unlimited ")
cli_case(attn_l2_nothing PROGRAM attn ARGS fa2 --batch 0 --l2 simulated STDOUT "fa2_forward ")
cli_case(attn_l2_numeric PROGRAM attn ARGS fa2 --mode numeric --seqlen 100 --heads 2 --l2 simulated STDOUT "max_abs_O")
cli_case(attn_l2_timed PROGRAM attn ARGS fa4 --hw b200 --mode time --seqlen 4k --heads 8 --head-dim 128 --l2 simulated STDOUT "fa4_forward ")
cli_case(attn_unbounded PROGRAM attn ARGS fa2 --hw unbounded --block-q 1000 --block-k 1000 --seqlen 10k
         STDOUT "matmul_flops +FLOP +26,843,545,600 ")
cli_case(attn_causal_is_short PROGRAM attn
         SCRIPT "\"$PROGRAM\" fa2 --causal >a && \"$PROGRAM\" fa2 --mask causal >b && cmp a b && \
                 \"$PROGRAM\" fa2 --mask none >c && ! cmp -s a c")
cli_case(attn_same_bytes PROGRAM attn
         SCRIPT "\"$PROGRAM\" fa2 --mode numeric --seqlen 100 >a && \"$PROGRAM\" fa2 --mode numeric --seqlen 100 >b && cmp a b")
cli_case(attn_seed PROGRAM attn
         SCRIPT "\"$PROGRAM\" fa2 --mode numeric --seqlen 100 --seed 2 >a && \
                 \"$PROGRAM\" fa2 --mode numeric --seqlen 100 --seed 3 >b && ! cmp -s a b")

# attn_json(NAME RUNS KEY VALUES arguments...): JSON of that many runs, complete, with these values of params.KEY (comma-separated).
function(attn_json name runs key values)
  if(NOT TARGET attn)
    return()
  endif()
  string(JOIN " " arguments ${ARGN})
  add_test(NAME cli_attn_json_${name}
    COMMAND ${CMAKE_COMMAND} "-DPROGRAM=$<TARGET_FILE:attn>" "-DARGS=${arguments}" -DRUNS=${runs} -DKEY=${key} -DVALUES=${values}
            -P ${cli_directory}/attn_json.cmake)
  set_tests_properties(cli_attn_json_${name} PROPERTIES LABELS cli TIMEOUT 60)
endfunction()

attn_json(standard 1 algorithm standard standard --seqlen 256)
attn_json(fa1 1 block_k 200 fa1 --sram 100k)
attn_json(fa1_shipped 1 mask causal fa1-shipped --seqlen 300 --causal)
attn_json(one_side_given 1 block_k 32 fa2 --block-k 32)
attn_json(numeric 1 mode numeric fa2 --mode numeric --seqlen 65 --dtype f64 --window 3,1)
attn_json(numeric_standard 1 dtype fp16 standard --mode numeric --seqlen 33 --dtype fp16)
attn_json(sweep 3 seqlen 100,200,1024 fa2 --seqlen 100,200,1k --l2 none)
attn_json(sweep_product 4 head_dim 32,64,32,64 fa2 --seqlen 100,200 --head-dim 32,64)
attn_json(sweep_heads 2 kv_heads 8,8 fa2 --heads 8,16 --kv-heads 8)
attn_json(batch_zero 1 batch 0 fa1 --batch 0)
attn_json(past_2_53 1 batch 1024 fa2 --batch 1k --heads 1k --seqlen 64k --block-q 128 --block-k 128 --l2 none)
