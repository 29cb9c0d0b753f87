// Numbers, times and small parts of pages. Text from a sweep enters the page only as text nodes.

export const whole = d3.format(',')
const short = d3.format('.5~r'), tiny = d3.format('.4~e')

export function num(x) {
  if (x === null || x === undefined || Number.isNaN(x)) return '–'
  if (!Number.isFinite(x)) return x > 0 ? '∞' : '−∞'
  if (Number.isInteger(x) && Math.abs(x) < 1e7) return String(x)
  return x !== 0 && (Math.abs(x) < 1e-3 || Math.abs(x) >= 1e6) ? tiny(x).replace('+', '') : short(x)
}

export function duration(s) {
  if (!Number.isFinite(s)) return '–'
  if (s > 0 && s < 1) return `${Math.round(s * 1000)} ms`
  if (s < 60) return `${s < 10 ? Number(s.toFixed(1)) : Math.round(s)} s`
  if (s < 3600) return `${Math.floor(s / 60)} min ${Math.round(s % 60)} s`
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.round(s % 3600 / 60)} min`
  return `${Math.floor(s / 86400)} d ${Math.round(s % 86400 / 3600)} h`
}

export const bytes = n => n < 1024 ? `${n} B` : n < 1048576 ? `${(n / 1024).toFixed(1)} KiB` : `${(n / 1048576).toFixed(1)} MiB`

export const text = v => typeof v === 'string' ? v : JSON.stringify(v)

// el('div', {class: 'a', onclick: f}, child, 'text', [children])
export function el(tag, attributes, ...children) {
  const node = document.createElement(tag)
  for (const [k, v] of Object.entries(attributes ?? {})) {
    if (k.startsWith('on')) node.addEventListener(k.slice(2), v)
    else if (k === 'style') Object.assign(node.style, v) // an attribute would violate the page's policy
    else if (v === true) node.setAttribute(k, '')
    else if (v !== false && v !== null && v !== undefined) node.setAttribute(k, v)
  }
  node.append(...children.flat(3).filter(c => c !== null && c !== undefined && c !== false))
  return node
}

export const button = (label, onclick, attributes) => el('button', { type: 'button', onclick, ...attributes }, label)

export function select(label, options, value, onchange) {
  const node = el('select', { 'aria-label': label, onchange: e => onchange(e.target.value) },
    options.map(([v, name]) => el('option', { value: v, selected: v === value }, name)))
  return node
}

export const check = (label, checked, onchange) =>
  el('label', {}, el('input', { type: 'checkbox', checked, onchange: e => onchange(e.target.checked) }), ' ', label)

// Returns false if the browser refuses, and `node` is selected then. Pages of plain HTTP have only the old way.
async function copy(line, node) {
  try { await navigator.clipboard.writeText(line); return true } catch { getSelection().selectAllChildren(node) }
  return document.execCommand('copy')
}

export function command(line) {
  const done = button('Copy', async () => {
    done.textContent = await copy(line, code) ? 'Copied' : 'Selected: press Ctrl+C'
    setTimeout(() => { done.textContent = 'Copy' }, 2500)
  }), code = el('code', { tabindex: 0 }, line)
  return el('div', { class: 'command' }, code, done)
}

// A link that opens a trial.
export const trialLink = (app, id) => el('a', { href: '#', onclick: e => { e.preventDefault(); app.openTrial(id) } }, String(id))

// A trial in a tooltip: its state, value and parameters. lines: what the plot knows of it besides.
const SHOWN = 12
export function describe(study, i, ...lines) {
  const value = study.get('value')[i], set = study.params.filter(p => p.varies).map(p => [p.name, study.paramText(p, i)]).filter(([, v]) => v !== null)
  return [`trial ${i}, ${study.stateText(i)}${value === value ? `: ${study.metric} ${num(value)}` : ''}`, ...lines,
    ...set.slice(0, SHOWN).map(([k, v]) => `${k} = ${(typeof v === 'number' ? num(v) : text(v)).slice(0, 60)}`),
    set.length > SHOWN ? `and ${set.length - SHOWN} more parameters` : ''].filter(Boolean).join('\n')
}

// What a failure says: its text and the way out.
export const reason = e => [e.message, e.hint].filter(Boolean).join('. Try: ')

export function table(head, rows, most = 200) {
  return el('div', { class: 'scroll' }, el('table', {},
    el('thead', {}, el('tr', {}, head.map((h, k) =>
      el('th', { scope: 'col', class: typeof rows[0]?.[k] === 'number' ? 'num' : null }, h)))),
    el('tbody', {}, rows.slice(0, most).map(r => el('tr', {}, r.map(c => el('td', { class: typeof c === 'number' ? 'num' : null },
      c instanceof Node ? c : typeof c === 'number' ? num(c) : c ?? '–')))))),
  rows.length > most ? el('small', {}, `${whole(most)} of ${whole(rows.length)} rows; CSV has all`) : null)
}

export function save(name, type, content) {
  const a = el('a', { href: URL.createObjectURL(new Blob([content], { type })), download: name })
  document.body.append(a)
  a.click()
  a.remove()
  setTimeout(() => URL.revokeObjectURL(a.href), 10000)
}

// RFC 4180. A text that a spreadsheet would take for a formula gets an apostrophe.
export function csv(head, rows) {
  const field = v => {
    let s = v === null || v === undefined || Number.isNaN(v) ? '' : String(v)
    if (typeof v === 'string' && /^[=+\-@\t\r]/.test(s) && Number.isNaN(Number(s))) s = "'" + s
    return /[",\r\n]/.test(s) ? '"' + s.replaceAll('"', '""') + '"' : s
  }
  return [head, ...rows].map(r => r.map(field).join(',')).join('\r\n') + '\r\n'
}

// Okabe and Ito's colours, which people with colour-blindness can tell apart.
export const stateColour = {
  waiting: '#9aa5b1', leased: '#56b4e9', running: '#56b4e9', stopping: '#56b4e9', pausing: '#56b4e9', paused: '#8fc7e8',
  done: '#0072b2', pruned: '#e69f00', failed: '#d55e00', oom: '#cc79a7', invalid: '#a0522d', cancelled: '#777f88'
}
