# Draws every plots/NAME.gp from RESULTS/NAME.csv into RESULTS/NAME.svg:
#   cmake -DGNUPLOT=gnuplot -DPLOTS=plots -DRESULTS=build/lecture -P experiments/support/plot.cmake
# A script sets no terminal and reads the variable `csv`, so that the same file draws into a terminal window:
#   gnuplot -p -e "csv='build/lecture/NAME.csv'" plots/NAME.gp
if(NOT GNUPLOT)
  message(STATUS "gnuplot was not found: no plots")
  return()
endif()
file(GLOB scripts ${PLOTS}/*.gp)
set(failed 0)
foreach(script ${scripts})
  get_filename_component(name ${script} NAME_WE)
  if(NOT EXISTS ${RESULTS}/${name}.csv)
    continue()
  endif()
  execute_process(
    COMMAND ${GNUPLOT} -e "set terminal svg size 900,560; set output '${RESULTS}/${name}.svg.part'"
            -e "csv='${RESULTS}/${name}.csv'" ${script}
    RESULT_VARIABLE code OUTPUT_QUIET ERROR_VARIABLE errors)
  if(code EQUAL 0 AND NOT errors MATCHES "warning")      # a table that is not there is only a warning to gnuplot
    file(RENAME ${RESULTS}/${name}.svg.part ${RESULTS}/${name}.svg)
  else()
    file(REMOVE ${RESULTS}/${name}.svg.part ${RESULTS}/${name}.svg)
    message(SEND_ERROR "gnuplot failed on ${script}:\n${errors}")
  endif()
endforeach()
