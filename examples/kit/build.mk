# Builds examples/kit, the code that trainers share, as an archive. It is compiled as a user's program
# would be, without headers of drover.
KIT_OBJS := $(patsubst %.c,$(B)/obj/%.o,$(wildcard examples/kit/*.c))
$(KIT_OBJS): EXTRA_CFLAGS := -UDROVER_BUILD
$(B)/examples/libkit.a: $(KIT_OBJS)
	@mkdir -p $(@D)
	@rm -f $@; ar rcs $@ $^

# The unit test links the archive.
$(B)/tests/unit/examples-kit: $(B)/examples/libkit.a
