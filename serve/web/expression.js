// Filters in the language of a sweep file's constraints (docs/drover-sweep.md): Python's operators, without side
// effects. compile(text, names) returns a function of the trial's number. An expression without a value is false.

const TOKEN = /\s*(?:(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|('[^']*'|"[^"]*")|`([^`]+)`|([A-Za-z_][\w.]*)|(\*\*|\/\/|<=|>=|==|!=|[-+*\/%<>(),]))/y
const FUNCTIONS = {
  min: Math.min, max: Math.max, abs: Math.abs, log: Math.log, log2: Math.log2, log10: Math.log10, exp: Math.exp,
  sqrt: Math.sqrt, floor: Math.floor, ceil: Math.ceil,
  round: x => Math.abs(x % 1) === .5 ? 2 * Math.round(x / 2) : Math.round(x)
}
const COMPARE = {
  '<': (a, b) => a < b, '<=': (a, b) => a <= b, '>': (a, b) => a > b, '>=': (a, b) => a >= b,
  '==': (a, b) => a === b, '!=': (a, b) => a !== b
}
const DEPTH_MAX = 64

function tokens(text) {
  const out = []
  TOKEN.lastIndex = 0
  while (text.slice(TOKEN.lastIndex).trim()) {
    const at = TOKEN.lastIndex, m = TOKEN.exec(text), rest = text.slice(at).trimStart()
    if (!m) throw new Error(`column ${text.length - rest.length + 1}: '${rest[0]}' is not part of an expression`)
    const [, number, string, quoted, word, sign] = m, column = TOKEN.lastIndex
    if (number !== undefined) out.push({ kind: 'number', value: Number(number), column })
    else if (string !== undefined) out.push({ kind: 'string', value: string.slice(1, -1), column })
    else if (quoted !== undefined) out.push({ kind: 'name', value: quoted, column })
    else if (word !== undefined) out.push({ kind: ['and', 'or', 'not', 'true', 'false'].includes(word) ? word : 'name',
      value: word, column })
    else out.push({ kind: sign, value: sign, column })
  }
  out.push({ kind: 'end', value: 'the end', column: text.length })
  return out
}

export function compile(text, names) {
  const list = tokens(text)
  let at = 0, depth = 0
  const fail = what => { throw new Error(`column ${list[at].column}: ${what}`) }
  const take = kind => list[at].kind === kind ? list[at++] : null
  const need = kind => take(kind) ?? fail(`'${kind}' is missing before '${list[at].value}'`)
  const value = f => f ?? NaN, none = v => typeof v === 'number' && !Number.isFinite(v)
  const deeper = f => { if (++depth > DEPTH_MAX) fail('the expression is too deep'); const r = f(); depth--; return r }

  function atom() {
    const t = list[at++]
    if (t.kind === 'number' || t.kind === 'string') return () => t.value
    if (t.kind === 'true' || t.kind === 'false') return () => t.kind === 'true'
    if (t.kind === '(') { const f = deeper(either); need(')'); return f }
    if (t.kind !== 'name') { at--; fail(`a value is missing before '${t.value}'`) }
    if (take('(')) {
      const f = Object.hasOwn(FUNCTIONS, t.value) ? FUNCTIONS[t.value] : fail(`unknown function '${t.value}'`), args = []
      if (!take(')')) { do args.push(deeper(either)); while (take(',')); need(')') }
      return i => f(...args.map(a => a(i)))
    }
    if (!names.has(t.value)) { at--; fail(`unknown name '${t.value}'; there are ${nearest(names.keys(), t.value).join(', ')}`) }
    return names.get(t.value)
  }
  function power() {
    const a = atom()
    if (!take('**')) return a
    const b = deeper(sign)
    return i => a(i) ** b(i)
  }
  function sign() {
    if (!take('-')) return take('+') ? deeper(sign) : power()
    const f = deeper(sign)
    return i => -f(i)
  }
  const binary = (next, table) => function level() {
    let f = next()
    for (let t; (t = Object.keys(table).find(k => take(k)));) { const a = f, b = next(), g = table[t]; f = i => g(a(i), b(i)) }
    return f
  }
  const whole = (x, y) => y === 0 ? NaN : x / y
  const product = binary(sign, {
    '*': (x, y) => x * y, '/': whole, '//': (x, y) => Math.floor(whole(x, y)),
    '%': (x, y) => y === 0 ? NaN : x - y * Math.floor(x / y)
  })
  const sum = binary(product, { '+': (x, y) => x + y, '-': (x, y) => x - y })
  function compared() {
    const parts = [sum()], signs = []
    for (let t; (t = Object.keys(COMPARE).find(k => take(k)));) { signs.push(COMPARE[t]); parts.push(sum()) }
    if (!signs.length) return parts[0]
    return i => {
      let a = value(parts[0](i))
      for (let k = 0; k < signs.length; k++) {
        const b = value(parts[k + 1](i))
        if (typeof a !== typeof b || none(a) || none(b) || !signs[k](a, b)) return false
        a = b
      }
      return true
    }
  }
  function inverted() {
    if (!take('not')) return compared()
    const f = deeper(inverted)
    return i => f(i) !== true
  }
  function both() {
    let f = inverted()
    while (take('and')) { const a = f, b = inverted(); f = i => a(i) === true && b(i) === true }
    return f
  }
  function either() {
    let f = both()
    while (take('or')) { const a = f, b = both(); f = i => a(i) === true || b(i) === true }
    return f
  }
  const f = either()
  if (list[at].kind !== 'end') fail(`unexpected '${list[at].value}'`)
  return i => f(i) === true
}

// Twelve names: those that share most pairs of letters with `word` first, then as they come.
function nearest(names, word) {
  const pairs = s => new Set([...s.toLowerCase()].slice(1).map((c, k) => s[k].toLowerCase() + c)), of = pairs(word)
  const share = n => { const p = pairs(n), both = [...p].filter(x => of.has(x)).length; return both * 2 > Math.min(p.size, of.size) ? both : 0 }
  return [...names].map((n, k) => [n, share(n), k]).sort((a, b) => b[1] - a[1] || a[2] - b[2]).slice(0, 12).map(a => a[0])
}

// The names that an expression over trials may use: parameters, metrics, and facts. A name means what it means as the head
// of a column: the sweep's metric is the value that counts, another one its last value.
export function namesOf(study) {
  const names = new Map(), column = c => i => study.get(c)[i]
  for (const p of study.params) names.set(p.name, i => study.paramText(p, i))
  for (const m of study.metrics) if (!names.has(m.name)) names.set(m.name, m.name === study.metric ? column('value') : i => m.last.v[i])
  const set = (name, f) => names.has(name) || names.set(name, f)
  for (const c of ['value', 'seconds', 'steps']) set(c, column(c))
  set('trial', i => i)
  set('state', i => study.stateName(i))
  set('feasible', i => study.get('feasible')[i] === 1)
  set('node', i => study.text(study.get('node')[i]) ?? '')
  set('error', i => study.text(study.get('error')[i]) ?? '')
  set('rank', i => study.rank[i])
  return names
}
