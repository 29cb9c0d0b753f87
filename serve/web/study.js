// The trials of a sweep as columns, and their axes. Grows by what has changed on the server.

const views = { f32: Float32Array, f64: Float64Array, u8: Uint8Array, u32: Uint32Array }
export const NONE = 0xffffffff // a text that is not set
const WIDE = 10 // an axis is logarithmic if its ends are this far apart
const FINAL = new Set(['done', 'pruned', 'failed', 'oom', 'invalid', 'cancelled'])
const FAILED = new Set(['failed', 'oom', 'invalid'])

// Reads a body of serve_pack.h: {head, column(name)}. planes: the numbers' first bytes come first, then the second ones.
export function unpack(buffer, planes) {
  const length = new DataView(buffer).getUint32(0, true)
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)))
  const column = name => {
    const [type, at, count] = head.columns[name]
    const size = views[type].BYTES_PER_ELEMENT
    if (!planes || size === 1) return new views[type](buffer, 4 + length + at, count)
    const from = new Uint8Array(buffer, 4 + length + at, count * size), out = new Uint8Array(count * size)
    for (let k = 0; k < size; k++) for (let i = 0, p = k * count; i < count; i++) out[i * size + k] = from[p + i]
    return new views[type](out.buffer)
  }
  return { head, column }
}

class Column {
  constructor(type, fill) { this.v = new type(0); this.fill = fill }

  reserve(n) {
    if (n <= this.v.length) return
    const bigger = new this.v.constructor(Math.max(n, 1.5 * this.v.length | 0))
    bigger.fill(this.fill, this.v.length)
    bigger.set(this.v)
    this.v = bigger
  }
}

const FIXED = {
  state: [Uint8Array, 0], added: [Uint8Array, 0], feasible: [Uint8Array, 1], value: [Float64Array, NaN], created: [Float64Array, NaN],
  leased: [Float64Array, NaN], ended: [Float64Array, NaN], seconds: [Float64Array, NaN], lease: [Uint32Array, 0],
  steps: [Uint32Array, 0], node: [Uint32Array, NONE], why: [Uint32Array, NONE], error: [Uint32Array, NONE]
}

export class Study {
  constructor() {
    this.n = this.seq = this.epoch = 0
    this.columns = Object.fromEntries(Object.entries(FIXED).map(([k, [t, f]]) => [k, new Column(t, f)]))
    this.params = []   // {name, category, varies, values?, log, lo, hi, col: Column}
    this.metrics = []  // {name, min, max, last: Column}
    this.leases = { n: 0, trial: new Column(Uint32Array, 0), node: new Column(Uint32Array, NONE),
      why: new Column(Uint32Array, NONE), begin: new Column(Float64Array, NaN), end: new Column(Float64Array, NaN) }
    this.texts = {}
    this.axes = []
  }

  // The values of a column; entries from n on have no meaning.
  get(name) { return this.columns[name].v }

  text(code) { return code === NONE ? null : this.texts[code] ?? null }

  stateName(i) { return this.states[this.columns.state.v[i]] }

  // The state, and if a trial with a value does not satisfy the outcome constraints.
  stateText(i) {
    const name = this.stateName(i)
    return this.get('feasible')[i] || (name !== 'done' && name !== 'pruned') ? name : name + ', infeasible'
  }

  isFailed(i) { return this.failedStates[this.columns.state.v[i]] }

  isEnded(i) { return this.finalStates[this.columns.state.v[i]] }

  // Applies a body of /cols. Returns false if the body does not continue what is here: read it anew from 0.
  apply({ head, column }) {
    if (this.seq && (head.epoch !== this.epoch || head.since !== this.seq)) return false
    const ids = column('id'), n = head.total
    const put = (col, from) => { col.reserve(n); for (let i = 0; i < ids.length; i++) col.v[ids[i]] = from[i] }
    Object.assign(this, { n, seq: head.seq, epoch: head.epoch, name: head.name, metric: head.metric, maximize: head.maximize,
      states: head.states, objectives: head.objectives, t0: head.t0_ms, when: head.when, constraints: head.constraints,
      failedStates: head.states.map(s => FAILED.has(s)), finalStates: head.states.map(s => FINAL.has(s)) })
    Object.assign(this.texts, head.texts)
    for (const k of Object.keys(FIXED)) put(this.columns[k], column(k))
    head.params.forEach((p, k) => {
      const old = this.params[k], from = column('p' + k)
      const col = old?.col ?? (p.category ? new Column(Int32Array, -1) : new Column(Float64Array, NaN))
      this.params[k] = { ...p, col }
      if (!p.category) return put(col, from)
      const none = from instanceof Uint8Array ? 255 : NONE
      col.reserve(n)
      for (let i = 0; i < ids.length; i++) col.v[ids[i]] = from[i] === none ? -1 : from[i]
    })
    head.metrics.forEach((name, k) => {
      const m = this.metrics[k] ??= { name, min: new Column(Float64Array, NaN), max: new Column(Float64Array, NaN),
        last: new Column(Float64Array, NaN) }
      for (const part of ['min', 'max', 'last']) put(m[part], column(`m${k}.${part}`))
    })
    this.#applyLeases(column)
    this.#derive()
    return true
  }

  #applyLeases(column) {
    const id = column('lease.id'), L = this.leases
    for (let i = 0; i < id.length; i++) L.n = Math.max(L.n, id[i])
    for (const k of ['trial', 'node', 'why', 'begin', 'end']) {
      const from = column('lease.' + k)
      L[k].reserve(L.n)
      for (let i = 0; i < id.length; i++) L[k].v[id[i] - 1] = from[i]
    }
  }

  // Trials with a value, the best first and infeasible ones last, and the axes.
  #derive() {
    const { n, maximize } = this, V = this.get('value'), state = this.get('state')
    const useful = this.states.map(s => !FAILED.has(s) && s !== 'cancelled')
    const keys = new Float64Array(n), known = new Uint32Array(n)
    let count = 0
    for (let i = 0; i < n; i++) if (V[i] === V[i] && useful[state[i]]) { keys[i] = maximize ? -V[i] : V[i]; known[count++] = i }
    const feasible = this.get('feasible'), sorted = sortByKey(known.subarray(0, count), keys)
    this.top = count ? V[sorted[0]] : 0
    this.order = Uint32Array.from([...sorted.filter(i => feasible[i]), ...sorted.filter(i => !feasible[i])])
    this.best = count && feasible[this.order[0]] ? this.order[0] : -1
    this.rank = new Float64Array(n).fill(NaN)
    for (let k = 0; k < count; k++) this.rank[this.order[k]] = k
    this.axes = this.params.filter(p => p.varies).map(p => this.#paramAxis(p))
    if (this.metric) this.axes.push(this.valueAxis(false))
  }

  #paramAxis(p) {
    const key = 'p:' + p.name
    if (p.category) return { key, name: p.name, category: true, values: p.values, col: p.col.v, param: p }
    let { lo, hi } = p
    if (!(lo < hi)) [lo, hi] = this.extent(p.col.v)
    return { key, name: p.name, lo, hi, log: p.log && lo > 0, col: p.col.v, whole: p.whole, param: p }
  }

  extent(col) {
    let lo = Infinity, hi = -Infinity
    for (let i = 0; i < this.n; i++) { if (col[i] < lo) lo = col[i]; if (col[i] > hi) hi = col[i] }
    if (lo > hi) return [0, 1]
    return lo === hi ? [lo - Math.abs(lo || 1) / 10, hi + Math.abs(hi || 1) / 10] : [lo, hi]
  }

  // The best value is at the top. From 51 trials on the worst 2 % share the bottom, so that they do not flatten the rest.
  valueAxis(byRank) {
    const { order } = this, V = this.get('value')
    const base = { key: 'value', name: (this.metric ?? 'value') + (byRank ? ' (rank)' : ''), isValue: true }
    if (byRank) return { ...base, key: 'rank', lo: Math.max(1, order.length - 1), hi: 0, col: this.rank, whole: true }
    let best = this.top, worst = order.length ? V[order[Math.ceil(.98 * (order.length - 1))]] : 1
    if (best === worst) { const d = Math.abs(best || 1) / 10; best -= this.maximize ? -d : d; worst += this.maximize ? -d : d }
    return { ...base, lo: worst, hi: best, col: V, log: Math.min(best, worst) > 0 && Math.max(best / worst, worst / best) > WIDE }
  }

  metricAxis(name, part) {
    const m = this.metrics.find(m => m.name === name), [lo, hi] = this.extent(m[part].v)
    return { key: `m:${part}:${name}`, name: `${name}, ${part}`, lo, hi, log: lo > 0 && hi / lo > WIDE, col: m[part].v }
  }

  axis(key) {
    if (key === 'rank') return this.valueAxis(true)
    const [kind, part, ...rest] = key.split(':')
    if (kind === 'm') return this.metrics.some(m => m.name === rest.join(':')) ? this.metricAxis(rest.join(':'), part) : null
    return this.axes.find(a => a.key === key) ?? null
  }

  // done, pruned, failed (or cancelled), or running (or waiting): what the marks of a plot tell apart.
  kind(i) {
    const name = this.stateName(i)
    return name === 'done' || name === 'pruned' ? name : this.isEnded(i) ? 'failed' : 'running'
  }

  // How many trials with a value have it outside of an axis.
  beyond(a) {
    const lo = Math.min(a.lo, a.hi), hi = Math.max(a.lo, a.hi)
    let n = 0
    if (!a.category) for (const i of this.order) n += a.col[i] < lo || a.col[i] > hi
    return n
  }

  // What a cell of a table shows.
  paramText(p, i) {
    const v = p.col.v[i]
    return p.category ? v < 0 ? null : p.values[v] : v === v ? v : null
  }
}

// Sorts ids by their keys. A comparator takes 40 ms for 50,000 ids. So numbers are sorted that consist of the key as
// a float and of the id; then the few neighbours that a float cannot tell apart change places.
const IDS = 2 ** 21
function sortByKey(ids, keys) {
  const count = ids.length, small = new Float32Array(count), bits = new Uint32Array(small.buffer),
    packed = new Float64Array(count)
  for (let k = 0; k < count; k++) small[k] = keys[ids[k]]
  for (let k = 0; k < count; k++) packed[k] = ((bits[k] >>> 31 ? ~bits[k] : bits[k] | 0x80000000) >>> 0) * IDS + ids[k]
  packed.sort()
  for (let k = 0; k < count; k++) ids[k] = packed[k] % IDS
  for (let k = 1; k < count; k++) {
    const id = ids[k]
    let at = k
    for (; at > 0 && keys[ids[at - 1]] > keys[id]; at--) ids[at] = ids[at - 1]
    ids[at] = id
  }
  return ids
}

// Positions 0..1 of all trials on an axis; UNSET if the trial has no value there. Calls of d3 scales per trial
// would take four times as long as the formula.
export const UNSET = Math.fround(-.085) // as it is in a Float32Array
export function place(study, a) {
  const n = study.n, u = new Float32Array(n), col = a.col
  if (a.category) {
    const scale = bandOf(a), width = scale.bandwidth(), at = a.values.map((_, k) => scale(k)), shift = scatter(a.key)
    for (let i = 0; i < n; i++) u[i] = col[i] < 0 ? UNSET : at[col[i]] + width * shift(i)
    return u
  }
  const f = a.log ? Math.log : x => x, from = f(a.lo), by = 1 / (f(a.hi) - from)
  for (let i = 0; i < n; i++) {
    const x = (f(col[i]) - from) * by
    u[i] = x !== x ? UNSET : x < 0 ? 0 : x > 1 ? 1 : x
  }
  return u
}

// Where in its cell a trial of a category stands, 0 … 1. Each axis scatters in its own way: two axes with the same shifts
// would put all trials of a cell on its diagonal.
export function scatter(key) {
  let salt = 7
  for (const c of key) salt = Math.imul(salt ^ c.charCodeAt(0), 16777619)
  return i => {
    let h = Math.imul(i + 1 ^ salt, 2654435761)
    h = Math.imul(h ^ h >>> 15, 2246822519)
    return ((h ^ h >>> 13) >>> 8) % 1000 / 1000
  }
}

export const bandOf = a => d3.scaleBand().domain(d3.range(a.values.length)).range([0, 1]).padding(.2)
export const scaleOf = a => a.category ? bandOf(a) : (a.log ? d3.scaleLog() : d3.scaleLinear()).domain([a.lo, a.hi]).range([0, 1])
