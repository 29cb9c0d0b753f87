# Builds examples/gpt: the trainer, its default text, and its GPU implementation if there is a CUDA
# toolkit.
GPT := $(B)/examples/gpt
GPT_OBJS := $(patsubst %.c,$(B)/obj/%.o,$(wildcard examples/gpt/*.c))
# The example is compiled as a user's program would be: with the installed form of <drover.h>, and
# without internal headers of drover.
$(GPT_OBJS): EXTRA_CFLAGS := -UDROVER_BUILD -Icollectives -Ilauncher/client -DGPT_DATA='"$(CURDIR)/$(GPT)/paradise_lost.txt"'
# -ffast-math lets gcc call libmvec's expf(), which is most of the speed.
$(B)/obj/examples/gpt/ops_cpu.o: EXTRA_CFLAGS += -O3 -ffast-math
$(GPT)/gpt: $(GPT_OBJS) $(B)/examples/libkit.a $(LIBDROVER)
	@mkdir -p $(@D)
	$(call say,LINK)
	$(Q)$(CC) $(ALL_LDFLAGS) $(call bundled,../../lib/bundled) -Wl,-rpath,'$$ORIGIN/../../lib' -o $@ $(GPT_OBJS) \
	    $(B)/examples/libkit.a -L$(B)/lib -ldrover -lopenblas -ldl -lm -lpthread
	$(if $(filter build/dev,$(B)),@ln -sfn ../../$(GPT)/gpt examples/gpt/gpt)

$(GPT)/paradise_lost.txt: examples/gpt/data/paradise_lost.txt.gz
	@mkdir -p $(@D)
	$(Q)gzip -dc $< > $@

EXAMPLES += $(GPT)/gpt $(GPT)/paradise_lost.txt
include examples/gpt/cuda.mk
all: $(EXAMPLES)
