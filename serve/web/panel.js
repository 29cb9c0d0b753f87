// One trial: parameters, metrics, curve, command, log, files, leases; a second trial next to it; a similar trial.
import { Plot, css } from './plot.js'
import { flat } from './view_overview.js'
import { button, bytes, command, duration, el, num, reason, select, table, text } from './format.js'

const shell = s => /^[\w@%+=:,./-]+$/.test(s) ? s : `'${s.replaceAll("'", "'\\''")}'`
// The value as a sweep file has it: a text that would be read as something else has quotes.
const FAILED = ['failed', 'oom', 'invalid']
const plain = /^(?!(yes|no|on|off|true|false|null)$)[a-z_][\w./-]*$/i
const scalar = v => typeof v === 'string' && plain.test(v) ? v : JSON.stringify(v)
const shown = v => v === undefined ? 'not set' : typeof v === 'number' ? num(v) : text(v)

export async function openPanel(panel, app, id) {
  const before = document.activeElement
  const close = () => { panel.hidden = true; app.closeTrial(); before?.focus?.() }
  const closer = button('Close', close, { 'aria-label': 'Close the trial' })
  const title = el('h2', { tabindex: -1 }, `Trial ${id}`), body = el('div', {}, el('p', { class: 'loading' }, 'Loading …'))
  panel.replaceChildren(el('div', { class: 'bar' }, title, el('span', { class: 'grow' }), closer), body)
  panel.hidden = false
  panel.onkeydown = e => { if (e.key === 'Escape') close() }
  title.focus()
  try {
    const t = await app.api('trial/' + id)
    if (app.trial === id) fill(body, app, t)
    watch(app, id)
  } catch (e) { body.replaceChildren(el('p', { class: 'failed', role: 'alert' }, e.message)) }
}

// While a trial runs, its facts and its curve are read again when it has reported, and its log as it grows.
const LIVE_MS = 2000
let live = null // what fill() can draw again
const stamp = (app, id) => [app.study.stateName(id), app.study.get('steps')[id], app.study.get('lease')[id]].join()
export async function panelNews(app) {
  const { trial: id } = app
  if (id === null || live?.id !== id || live.stamp === stamp(app, id)) return
  live.stamp = stamp(app, id)
  const t = await app.api('trial/' + id).catch(() => null)
  if (t && app.trial === id) live.update(t)
}

function watch(app, id) {
  setTimeout(async () => {
    if (app.trial !== id || live?.id !== id) return
    await live.log()
    if (!app.study.isEnded(id)) watch(app, id)
  }, LIVE_MS)
}

function fill(body, app, t) {
  const params = flat(t.params), compare = el('input',
    { size: 7, placeholder: 'trial', 'aria-label': 'Compare with trial', onchange: async () => {
    const other = compare.value.trim()
    if (!other) return draw(null)
    try { draw(await app.api('trial/' + other)) } catch (e) { values.replaceChildren(el('p', { class: 'failed' }, e.message)) }
  } })
  const values = el('div'), curve = curvePlot(app)
  function draw(other) {
    const theirs = other ? flat(other.params) : {}
    shownOther = other
    const rows = (a, b) => [...new Set([...Object.keys(a), ...Object.keys(b)])].map(k =>
      el('tr', { class: other && JSON.stringify(a[k]) !== JSON.stringify(b[k]) ? 'differs' : null },
      el('td', {}, k), el('td', { class: 'num' }, shown(a[k])), other ? el('td', { class: 'num' }, shown(b[k])) : null))
    const part = (name, a, b) => [el('h3', {}, name), el('div', { class: 'scroll' }, el('table', {},
      other ? el('thead', {}, el('tr', {}, el('th', {}), el('th', { class: 'num' }, `trial ${t.id}`),
        el('th', { class: 'num' }, `trial ${other.id}`))) : null, el('tbody', {}, rows(a, b))))]
    const facts = x => ({ state: app.study.stateText(x.id), ...(x.value === undefined || x.value === null ? {}
      : { [`${app.study.metric ?? 'value'}, ${app.overview.value ?? 'best'}`]: x.value }), seconds: x.seconds, steps: x.steps, node: x.node })
    values.replaceChildren(...part('Facts', facts(t), other ? facts(other) : {})
      .concat(part('Parameters', params, theirs), part('Metrics, the last values', t.metrics ?? {}, other?.metrics ?? {})))
    curve.of = [t, other].filter(Boolean)
    curve.draw()
  }
  const log = el('div'), said = el('small', { role: 'status' }), state = t.state
  let shownOther = null
  live = { id: t.id, stamp: stamp(app, t.id), log: () => log.grow?.(), update: now => {
    const ended = now.state !== t.state
    if (ended) return fill(body, app, now)
    t = now
    draw(shownOther)
  } }
  const act = (label, command) => button(label, async () => {
    try { await app.control(command); said.textContent = 'Done.' } catch (e) { said.textContent = reason(e) }
  })
  const control = !app.list?.control ? '' : el('div', { class: 'tools' },
    [...FAILED, 'cancelled'].includes(state) ? act('Retry', { verb: 'retry', trials: [t.id] })
    : ['done', 'pruned'].includes(state) ? null : act('Cancel', { verb: 'cancel', trials: [t.id] }), said)
  body.replaceChildren(t.error ? el('p', { class: 'failed' }, t.error) : '',
    t.why && !t.error ? el('p', { class: 'mute' }, `ended because of: ${t.why}`) : '',
    control, t.command ? command(t.command) : '', el('div', { class: 'tools' }, el('label', {}, 'Compare with trial ', compare)),
      values, curve.card, log,
    el('h3', {}, 'Files'), t.output ? el('small', {}, t.output) : '',
    t.files.length ? table(['name', 'size'], t.files.map(f => [f.dir ? f.name + '/' : f.name, f.dir ? null : bytes(f.bytes)]))
      : el('p', { class: 'mute' }, t.output ? 'None here: they may be on the trial’s node.' : 'The trial has not started yet.'),
    el('h3', {}, 'Leases'), table(['lease', 'node', 'begin', 'duration', 'why it ended'],
      t.leases.map(l => [String(l.lease), l.node ?? l.worker, new Date(l.begin_ms).toLocaleString(),
      duration(((l.end_ms ?? Date.now()) - l.begin_ms) / 1000), l.why ?? (l.end_ms ? 'by itself' : 'runs')])),
    similar(app, t, params))
  draw(null)
  drawLog(log, app, t, FAILED.includes(state) ? ['stderr', 'stdout'] : ['stdout', 'stderr'])
}

function curvePlot(app) {
  const plot = new Plot({ title: 'Curve', height: 170, label: 'Learning curve',
    rows: () => ({ head: ['trial', 'step', metric],
    rows: plot.of.flatMap(t => (t.curves[metric] ?? []).map(p => [t.id, ...p])) }) })
  let metric = app.study.metric ?? app.study.metrics[0]?.name
  const names = app.study.metrics.map(m => [m.name, m.name])
  if (names.length > 1) plot.head.insertBefore(select('Metric', names, metric, v => { metric = v; plot.draw() }), plot.note)
  plot.of = []
  plot.draw = () => {
    const curves = plot.of.map(t => t.curves[metric] ?? []), all = curves.flat()
    if (!all.length) return plot.say('No reports of this metric.')
    const f = plot.frame()
    if (!f) return
    const x = d3.scaleLinear().domain(d3.extent(all, p => p[0])).range([0, f.W]),
      y = d3.scaleLinear().domain(d3.extent(all, p => p[1])).nice().range([f.H, 0])
    curves.forEach((points, k) => {
      f.ctx.strokeStyle = f.ctx.fillStyle = css(k ? '--b' : '--a')
      f.ctx.lineWidth = 1.6
      f.ctx.beginPath()
      points.forEach(([s, v], i) => f.ctx[i ? 'lineTo' : 'moveTo'](f.left + x(s), f.top + y(v)))
      f.ctx.stroke()
      if (points.length < 3) for (const [s, v] of points) f.ctx.fillRect(f.left + x(s) - 2, f.top + y(v) - 2, 4, 4)
    })
    plot.xAxis(x, { lo: x.domain()[0], hi: x.domain()[1], whole: true }, 'step')
    plot.yAxis(y, null, metric)
    plot.note.textContent = plot.of.length > 1 ? `blue: trial ${plot.of[0].id}, orange: trial ${plot.of[1].id}` : ''
  }
  return plot
}

// Shows the end of the first of the streams that has any. box.grow() appends what was written since.
const TAIL = 65536
async function drawLog(box, app, t, [stream, other]) {
  const pre = el('pre', { class: 'log', tabindex: 0, 'aria-label': stream }, 'Loading …'), note = el('small')
  const tab = name => button(name, () => drawLog(box, app, t, [name]), { 'aria-pressed': String(name === stream) })
  const read = bytes => app.api(`log/${t.id}/${stream}?tail=${bytes}`)
  let known = 0
  const show = (end, size) => {
    const down = pre.scrollTop + pre.clientHeight > pre.scrollHeight - 20
    pre.textContent = end || (size >= 0 ? '(empty)' : 'There is no such log on this machine.')
    if (down) pre.scrollTop = pre.scrollHeight
    note.textContent = !(size >= 0) ? '' : size > TAIL ? `the last 64 KiB of ${bytes(size)}` : bytes(size)
    known = size
  }
  box.grow = async () => {
    const size = (await read(0).catch(() => null))?.size // the size alone
    if (!(size >= 0) || size === known || !pre.isConnected) return
    const more = size - (known || 0), all = !known || more < 0 || more > TAIL, got = await read(all ? TAIL : more).catch(() => null)
    if (got?.size === size) show(all ? got.text : (pre.textContent + got.text).slice(-TAIL), size)
    else if (got) show((await read(TAIL)).text, got.size)
  }
  try {
    const { text: end, size } = await read(TAIL)
    if (!end && other && (await app.api(`log/${t.id}/${other}?tail=1`)).text) return drawLog(box, app, t, [other])
    box.replaceChildren(el('div', { class: 'head bar' }, el('h3', {}, 'Log'), tab('stdout'), tab('stderr'), note), pre)
    show(end, size)
    pre.scrollTop = pre.scrollHeight
  } catch (e) { box.replaceChildren(pre); pre.textContent = e.message }
}

// A form with the trial's parameters: what `drover sweep add` runs.
function similar(app, t, params) {
  const inputs = new Map(Object.entries(params).map(([k, v]) => [k, el('input', { value: scalar(v), 'aria-label': k })]))
  const line = el('div'), said = el('p', { role: 'status' })
  const words = () => [...inputs].map(([k, input]) => `${k}=${input.value.trim()}`)
  const update = () => line.replaceChildren(command(`drover sweep add ${shell(app.sweep)} ` + words()
    .map(word => `--param ${shell(word)}`).join(' ')))
  for (const input of inputs.values()) input.addEventListener('input', update)
  update()
  const send = app.list?.control ? button('Add this trial', async () => {
    try { await app.control({ verb: 'add', words: words() });
      said.textContent = 'Added.' } catch (e) { said.textContent = reason(e) }
  }) : null
  return el('details', {}, el('summary', {}, 'Add a similar trial'),
    table(['parameter', 'value'], [...inputs].map(([k, input]) => [k, input])), line, send, said)
}

