# --gantt and --trace: pictures are there, traces are JSON that a viewer accepts (check_trace.cmake), what cannot be written leaves nothing behind.
function(trace_case program)
  if(NOT TARGET ${program})
    return()
  endif()
  add_test(NAME cli_${program}_trace
    COMMAND ${CMAKE_COMMAND} "-DPROGRAM=$<TARGET_FILE:${program}>" "-DARGS=${ARGN}" -DWORK=${CMAKE_CURRENT_BINARY_DIR}/cli/${program}_trace
            -P ${cli_directory}/check_trace.cmake)
  set_tests_properties(cli_${program}_trace PROPERTIES LABELS cli TIMEOUT 120)
  cli_case(${program}_gantt PROGRAM ${program} ARGS --gantt ${ARGN} STDOUT "cycle         0  .*\ntensor cores|  cycle         0 ")
  cli_case(${program}_trace_nowhere PROGRAM ${program} ARGS --trace no/such/t.json ${ARGN} EXIT 4 STDERR "cannot write no/such/t.json: ")
  cli_case(${program}_trace_full_device PROGRAM ${program} ARGS --trace /dev/full ${ARGN} EXIT 4 STDERR "cannot write /dev/full: ")
  cli_case(${program}_trace_missing PROGRAM ${program} ARGS --trace EXIT 2 STDERR "--trace: the value is missing")
endfunction()

trace_case(s4_1_async --seqlen 256)
trace_case(s4_2_exp_cycles --head-dim 96 --hw b200)
trace_case(s4_3_pingpong --seqlen 256 --hw h200)
trace_case(attn fa4 --mode time --hw b200 --head-dim 128 --rescale-share 0.5)

# One block of one run.
set(one_block "needs --mode time, the forward pass of fa2, fa3 or fa4, and one value in every list")
cli_case(attn_gantt_untimed PROGRAM attn ARGS fa3 --gantt EXIT 2 STDERR "^attn: --gantt: ${one_block}\n$")
cli_case(attn_trace_of_two PROGRAM attn ARGS fa3 --mode time --seqlen 1k,2k --trace t.json EXIT 2 STDERR "^attn: --trace: ${one_block}\n$")
cli_case(attn_trace_of_kernels PROGRAM attn ARGS standard --mode time --trace t.json EXIT 2 STDERR "^attn: --trace: ${one_block}\n$")

# Lengths that no schedule takes; chips without wgmma are shown with another.
cli_case(pingpong_ragged PROGRAM s4_3_pingpong ARGS --seqlen 100 EXIT 3 STDERR "--seqlen 100: the schedules take whole tiles, a multiple of 128")
cli_case(pingpong_endless PROGRAM s4_3_pingpong ARGS --seqlen 1m EXIT 3 STDERR "--seqlen 1048576: the schedules take")
cli_case(async_empty PROGRAM s4_1_async ARGS --seqlen 0 EXIT 3 STDERR "--seqlen 0: a block's timeline takes 1 to")
foreach(chip a100 h200 b200 unbounded ideal_sm)
  foreach(program s4_1_async s4_2_exp_cycles s4_3_pingpong)
    cli_case(${program}_${chip} PROGRAM ${program} ARGS --hw ${chip} --check)
  endforeach()
endforeach()
cli_case(pingpong_dims PROGRAM s4_3_pingpong ARGS --head-dim 32,64,80,96,192,256,512 --seqlen 128,384,2k --check)
cli_case(exp_ragged_tiles PROGRAM s4_2_exp_cycles ARGS --head-dim 1,7,72 --block-q 1,100 --block-k 3,77 --check)
