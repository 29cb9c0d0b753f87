// The one selection of all views: ranges on axes, and a filter.
import { compile, namesOf } from './expression.js'
import { num, text } from './format.js'

export class Selection {
  constructor() {
    this.ranges = new Map() // key of an axis -> [from, to] in its unit; of a category: positions of values
    this.filter = ''
    this.error = null
    this.mask = new Uint8Array(0)
    this.count = 0
  }

  get empty() { return this.ranges.size === 0 && !this.filter }

  apply(study) {
    const n = study.n
    if (this.mask.length < n) this.mask = new Uint8Array(Math.max(n, 1.5 * this.mask.length | 0))
    const { mask } = this
    mask.fill(1, 0, n)
    for (const [key, [from, to]] of this.ranges) {
      const a = study.axis(key)
      if (!a) continue
      const { col } = a
      for (let i = 0; i < n; i++) if (!(col[i] >= from && col[i] <= to)) mask[i] = 0
    }
    this.error = null
    if (this.filter) {
      try {
        const holds = compile(this.filter, namesOf(study))
        for (let i = 0; i < n; i++) if (mask[i] && !holds(i)) mask[i] = 0
      } catch (e) { this.error = e.message }
    }
    this.count = 0
    for (let i = 0; i < n; i++) this.count += mask[i]
  }

  describe(study) {
    const parts = [...this.ranges].map(([key, [from, to]]) => {
      const a = study.axis(key)
      if (!a) return null
      if (a.category) return `${a.name}: ${a.values.slice(Math.ceil(from), Math.floor(to) + 1).map(text).join(', ')}`
      return `${a.name}: ${num(from)} to ${num(to)}`
    })
    if (this.filter) parts.push(this.filter)
    return parts.filter(Boolean)
  }

  write(params) {
    for (const [key, [a, b]] of this.ranges) params.append('range', `${encodeURIComponent(key)},${a},${b}`)
    if (this.filter) params.set('filter', this.filter)
  }

  read(params) {
    this.ranges.clear()
    for (const range of params.getAll('range')) {
      const [key, a, b] = range.split(',')
      if (Number(a) <= Number(b)) this.ranges.set(decodeURIComponent(key), [Number(a), Number(b)])
    }
    this.filter = params.get('filter') ?? ''
  }
}

// The sweep's file with the selected ranges as its space. The rest of the file stays as it is.
export function narrowedFile(file, study, selection) {
  const tree = {}, dropped = inactive(study, selection), gone = p => dropped.has(p.name)
  for (const p of study.params.filter(p => !gone(p))) {
    const range = selection.ranges.get('p:' + p.name), path = p.name.split('.')
    let at = tree
    for (const group of path.slice(0, -1)) at = (at[group] ??= { parameters: {} }).parameters
    at[path.at(-1)] = narrowed(p, range)
  }
  const lines = file.split('\n'), out = []
  const block = Object.entries(tree).map(([k, v]) => `  ${JSON.stringify(k)}: ${JSON.stringify(v)}`)
  for (let i = 0, inside = false; i < lines.length; i++) {
    if (/^parameters\s*:/.test(lines[i])) { out.push('parameters:', ...block); inside = true; continue }
    if (inside && /^[^\s#}\]-]/.test(lines[i])) inside = false
    if (inside) continue
    out.push(/^name\s*:/.test(lines[i]) ? lines[i].replace(/^name\s*:\s*(.*?)\s*$/,
      (_, s) => `name: ${s.replace(/^["']|["']$/g, '')}-narrowed`) : lines[i])
  }
  return narrowedRules(out.join('\n'), study, selection, dropped)
}

const list = x => Array.isArray(x) ? x : [x]
// The values of a condition that are left of the parameter that it tests.
function valuesLeft(study, selection, { param, in: values }) {
  const p = study.params.find(p => p.name === param), range = selection.ranges.get('p:' + param)
  if (!p || !range) return values
  return values.filter(v => p.category ? p.values.some((w, k) => w === v && k >= range[0] && k <= range[1]) : v >= range[0] && v <= range[1])
}

// The parameters that no trial of the selected ranges can have: a condition of theirs never holds.
function inactive(study, selection) {
  const dropped = new Set(), rules = Object.entries(study.when ?? {})
  for (let before = -1; before < dropped.size;) {
    before = dropped.size
    for (const p of study.params) for (const [name, conditions] of rules)
      if ((p.name === name || p.name.startsWith(name + '.'))
        && list(conditions).some(c => dropped.has(c.param) || !valuesLeft(study, selection, c).length)) dropped.add(p.name)
  }
  return dropped
}

// The file's conditions and constraints without what is about parameters or values that are gone.
function narrowedRules(file, study, selection, dropped) {
  const kept = name => study.params.some(p => !dropped.has(p.name) && (p.name === name || p.name.startsWith(name + '.')))
  const when = Object.fromEntries(Object.entries(study.when ?? {}).filter(([name]) => kept(name))
    .map(([name, cs]) => [name, list(cs).map(c => ({ ...c, in: valuesLeft(study, selection, c) }))])
    .map(([name, cs]) => [name, cs.length === 1 ? cs[0] : cs]))
  const words = s => s.replace(/'[^']*'|"[^"]*"/g, '').match(/[A-Za-z_][\w.-]*/g) ?? []
  const constraints = (study.constraints ?? []).filter(c => !words(c).some(w => dropped.has(w)))
  const same = (a, b) => JSON.stringify(a ?? null) === JSON.stringify(b ?? null)
  if (study.when && !same(when, Object.fromEntries(Object.entries(study.when).map(([k, c]) => [k, list(c).length === 1 ? list(c)[0] : c]))))
    file = replaceValue(file, 'when', when)
  return same(constraints, study.constraints ?? []) ? file : replaceValue(file, 'constraints', constraints)
}

// Replaces the value of the first key of this name, in brackets or in lines with a deeper indent, by JSON.
function replaceValue(file, key, value) {
  const at = new RegExp(`(^|[\\s{,])["']?${key}["']?[ \\t]*:[ \\t]*`, 'm').exec(file)
  if (!at) return file
  const from = at.index + at[0].length, json = JSON.stringify(value)
  if ('{['.includes(file[from])) {
    let depth = 0, quote = '', to = from
    do {
      const c = file[to++]
      if (quote) quote = c === quote ? '' : quote
      else if (c === '"' || c === "'") quote = c
      else depth += '{['.includes(c) ? 1 : '}]'.includes(c) ? -1 : 0
    } while (depth && to < file.length)
    return file.slice(0, from) + json + file.slice(to)
  }
  const lines = file.slice(from).split('\n'), line = file.slice(file.lastIndexOf('\n', from - 1) + 1, from)
  const indent = /^\s*/.exec(line)[0].length
  let k = 1
  for (; k < lines.length; k++) {
    const deep = /^\s*/.exec(lines[k])[0].length
    if (lines[k].trim() && !(deep > indent || deep === indent && lines[k][deep] === '-')) break
  }
  return file.slice(0, from).replace(/:$/, ': ') + [json, ...lines.slice(k)].join('\n')
}

function narrowed(p, range) {
  if (p.category && !range && p.distribution) return p.distribution
  if (p.category) {
    const values = range ? p.values.filter((_, k) => k >= range[0] && k <= range[1]) : p.values
    return values.length === 1 ? { value: values[0] } : { values }
  }
  const d = { ...p.distribution }
  if (!range) return d
  const round = p.whole ? [Math.ceil, Math.floor] : [x => Number(x.toPrecision(6)), x => Number(x.toPrecision(6))]
  const [min, max] = range.map((x, k) => round[k](Math.min(Math.max(x, p.lo ?? -Infinity), p.hi ?? Infinity)))
  if ('min' in d && (d.distribution ?? '').includes('log_uniform') && !d.distribution.includes('values') && !p.whole)
    return { ...d, min: Math.log(min), max: Math.log(max) } // W&B's log_uniform has exponents
  if ('min' in d) return { ...d, min, max }
  return { distribution: p.log ? 'log_uniform_values' : 'uniform', min, max } // a normal distribution has no bounds
}
