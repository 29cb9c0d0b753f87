"""How much of a virtual machine's processors its host gave to others: what was measured beside much of that is no figure."""
import atexit


def _ticks():
    """(stolen, all) since boot, of all processors: /proc/stat, see proc(5)."""
    with open("/proc/stat", encoding="ascii") as f:
        ticks = [int(x) for x in f.readline().split()[1:9]]
    return ticks[7], sum(ticks)


def tell_at_end():
    """When the script ends, prints what was taken away since now, from one per cent on."""
    before = _ticks()

    def tell():
        stolen, total = (now - then for now, then in zip(_ticks(), before))
        if stolen >= total / 100:
            print(f"the host took {stolen / total:.0%} of the processors away meanwhile")

    atexit.register(tell)
