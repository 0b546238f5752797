# Which headers of optional libraries the compiler finds (fabric/*/available.h), as macros that nobody reads: where the
# answer has changed since the last build, make and ccache see another command, and compile anew.
HEADERS := $(shell $(CXX) $(CXXFLAGS) -dM -E -include fabric/ucx/available.h -include fabric/verbs/available.h \
  -x c++ /dev/null | sed -n 's/^.define NBC_HAS_\([A-Z]*\) \([01]\)$$/\1=\2/p')
CXXFLAGS += $(addprefix -DNBC_FOUND_,$(sort $(HEADERS)))
