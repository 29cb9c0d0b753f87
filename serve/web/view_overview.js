// Overview: the best trial, progress, history, importance, failures.
import { Plot, beyondText, css, hiddenKinds, kindLegend, nearest, pixels, positions, trialMarks } from './plot.js'
import { button, check, command, describe, duration, el, num, reason, stateColour, table, text, trialLink, whole } from './format.js'
import { goalAxes, front } from './view_pareto.js'

const RATE_S = 300 // trials per minute over the last five minutes

export function mount(root, app) {
  const best = el('section', { class: 'card w6', 'aria-label': 'Best trial' })
  const progress = el('section', { class: 'card w6', 'aria-label': 'Progress' })
  const importance = el('section', { class: 'card w5', 'aria-label': 'Importance of parameters' })
  const failures = el('section', { class: 'card', 'aria-label': 'Failures' })
  const history = historyPlot(app)
  const insight = el('section', { class: 'card insight', 'aria-label': 'In short' })
  root.replaceChildren(el('div', { class: 'grid' }, insight, best, progress, history.card, importance, failures))
  return () => {
    const said = app.overview.insight ?? []
    insight.hidden = !said.length
    insight.replaceChildren(...said.map((s, k) => el('p', { class: k ? null : 'first' }, s)))
    drawBest(best, app)
    drawProgress(progress, app)
    history.draw()
    drawImportance(importance, app)
    drawFailures(failures, app)
  }
}

function drawBest(card, app) {
  const { study, overview } = app
  const b = overview.best, axes = goalAxes(study), several = b && axes.length > 1
  const head = el('div', { class: 'head' }, el('h2', {}, several ? 'Best trials' : 'Best trial'))
  if (!b) {
    const why = !study.metric ? 'The sweep has no metric, so no trial is the best.' : study.n
      ? overview.outcome_constraints && study.order.length ? 'No trial satisfies the outcome constraints.'
        : 'No trial has reported a value yet.' : 'No trial has started yet.'
    return card.replaceChildren(head, study.n ? '' : waiting(app), el('p', { class: 'empty' }, why))
  }
  if (several) return drawFront(card, head, app, axes)
  const params = Object.entries(flat(b.params))
  card.replaceChildren(head,
    el('div', { class: 'big' }, num(b.value), ' ',
      el('small', {}, `${overview.metric} (${overview.maximize ? 'maximized' : 'minimized'})`)),
    el('div', {}, 'trial ', trialLink(app, b.id),
      ': ', el('span', { class: 'mute' }, params.map(([k, v]) => `${k}=${typeof v === 'number' ? num(v) : text(v)}`).join('  '))),
    b.command ? command(b.command) : el('small', {}, 'Its command cannot be made from the sweep file.'))
}

// The front of several objectives: no trial is better in one of them without being worse in another one.
const FRONT_SHOWN = 6
function drawFront(card, head, app, axes) {
  const on = front(app.study.order, axes.map(a => a.col), axes.map(a => a.maximize ? -1 : 1))
  card.replaceChildren(head, el('p', {}, `${whole(on.length)} of ${whole(app.study.order.length)} trials are not beaten in all of `
    + axes.map(a => `${a.name} (${a.maximize ? 'maximized' : 'minimized'})`).join(', ') + '.'),
  table(['trial', ...axes.map(a => a.name)], on.slice(0, FRONT_SHOWN).map(i => [trialLink(app, i), ...axes.map(a => a.col[i])])),
  el('a', { href: '#view=pareto', onclick: e => { e.preventDefault(); app.go('pareto') } }, 'All of the front'))
}

// A sweep that runs without workers waits for them.
function waiting({ overview: { name, state, workers }, list }) {
  if (state !== 'running' || !workers || workers.length) return ''
  return el('div', {}, el('p', {}, 'No worker runs trials of this sweep. If it was started with --listen, copy ',
    el('code', {}, `${list?.root ?? 'sweeps'}/${name}/worker.key`), ' to a machine and type there:'),
  command('drover worker --key worker.key'))
}

export function flat(params, prefix = '') {
  return Object.assign({}, ...Object.entries(params).map(([k, v]) =>
    v && typeof v === 'object' && !Array.isArray(v) ? flat(v, prefix + k + '.') : { [prefix + k]: v }))
}

// Seconds that leases have lasted, and of these the ones whose trial has not failed.
export function leaseSeconds(study, now) {
  const L = study.leases
  let total = 0, useful = 0
  for (let k = 0; k < L.n; k++) {
    const s = (L.end.v[k] === L.end.v[k] ? L.end.v[k] : now) - L.begin.v[k]
    if (!(s > 0)) continue
    total += s
    if (!study.isFailed(L.trial.v[k])) useful += s
  }
  return { total, useful }
}

function drawProgress(card, app) {
  const { study, overview, list } = app
  if (card.contains(document.activeElement) && document.activeElement.matches('input')) return
  const { counts, total_wanted: wanted, resources } = overview, now = (overview.now_ms - study.t0) / 1000
  const ended = study.get('ended'), live = overview.state === 'running'
  let done = 0, recent = 0, last = 0
  for (let i = 0; i < study.n; i++) if (study.isEnded(i)) {
    done++
    last = Math.max(last, ended[i] || 0)
  }
  const until = live ? now : last, span = Math.min(RATE_S, until)
  for (let i = 0; i < study.n; i++) recent += ended[i] > until - span
  const rate = span > 0 ? recent / span * 60 : 0
  const left = wanted >= 0 && live && rate > 0 ? Math.max(0, wanted - done) / rate * 60 : NaN
  const { total, useful } = leaseSeconds(study, live ? now : last), gpus = resources.gpus * resources.nodes
  const fact = (name, value, title) => el('div', { title }, el('b', {}, value), el('small', {}, name))
  const bar = el('div', { class: 'states', role: 'img', 'aria-label': 'trials by state' }),
    names = Object.keys(counts).filter(k => counts[k])
  const of = Math.max(study.n, wanted)
  for (const k of names) bar.append(el('span', { title: `${k}: ${whole(counts[k])}`,
    style: { width: 100 * counts[k] / of + '%', background: stateColour[k] } }))
  card.replaceChildren(el('div', { class: 'head' }, el('h2', {}, 'Progress'), el('small', {}, overview.description ?? '')),
    el('div', { class: 'facts' },
      fact(wanted >= 0 ? `of ${whole(wanted)} trial${wanted === 1 ? '' : 's'} ended` : 'trials ended', whole(done)),
      done ? fact('trials per minute', num(Number(rate.toPrecision(3))), 'over the last five minutes of the sweep') : '',
      !live ? fact('duration', duration(last)) : Number.isFinite(left) ? fact('left', duration(left), 'at this rate') : '',
      gpus > 0 ? fact('GPU hours', num(Number((total * gpus / 3600).toPrecision(3))),
        `${num(Number((100 * useful / (total || 1)).toPrecision(3)))} % of them in trials that did not fail`)
        : fact('of trials', duration(total), 'the sum over all trials')),
    study.n ? waiting(app) : '',
    bar, el('div', { class: 'legend' }, names.map(k =>
      el('span', {}, el('i', { style: { background: stateColour[k] } }), `${k} ${whole(counts[k])}`))),
    list.control ? controls(app) : '')
}

// What `drover sweep stop` and its siblings do, with --control.
function controls(app) {
  const said = el('small', { role: 'status' }),
    more = el('input', { size: 4, value: 10, 'aria-label': 'Number of trials to add' })
  const send = async command => {
    try {
      const { applied_here: here } = await app.control(command)
      said.textContent = here ? `Stored; no coordinator is running: drover sweep resume ${app.sweep}` : 'Done.'
    } catch (e) { said.textContent = reason(e) }
  }
  const sure = (label, command) => button(label, e => {
    if (e.target.textContent === label) { e.target.textContent = `${label}: really?`;
      setTimeout(() => { e.target.textContent = label }, 4000) } else send(command)
  })
  return el('div', { class: 'tools', role: 'group', 'aria-label': 'Control' },
    app.overview.state === 'paused' ? button('Resume', () => send({ verb: 'resume' }))
    : button('Pause', () => send({ verb: 'pause', finish: true })),
    sure('Stop', { verb: 'stop', now: false, finish: true }), button('Retry failed', () => send({ verb: 'retry', failed: true })),
      more, button('Add trials', () => send({ verb: 'add', trials: Number(more.value) })), said)
}

function historyPlot(app) {
  let drawn = null
  const log = check('log', false, on => { app.setOption('log', on ? '1' : '0'); plot.draw() }), kinds = el('span', { class: 'kinds' })
  const plot = new Plot({
    title: 'History', width: 'w7', label: 'Value of each trial, and the best value so far', height: 280,
    extras: [kinds, log],
    rows: () => {
      const V = app.study.get('value'), rows = []
      for (let i = 0, b = NaN; i < app.study.n; i++) {
        if (counts(app.study, i)) b = b === b ? (app.study.maximize ? Math.max(b, V[i]) : Math.min(b, V[i]))
          : V[i]
        rows.push([i, app.study.stateText(i), V[i], b])
      }
      return { head: ['trial', 'state', app.study.metric ?? 'value', 'best so far'], rows }
    }
  })
  plot.draw = () => {
    const { study } = app, all = Array.from({ length: study.n }, (_, i) => i).filter(i => study.rank[i] === study.rank[i] || study.kind(i) === 'failed')
    if (!study.order.length) return plot.say(study.metric ? 'No values yet: a point appears when a trial reports.'
      : 'The sweep has no metric.')
    const f = plot.frame()
    if (!f) return
    const value = study.valueAxis(false)
    let [lo, hi] = value.lo < value.hi ? [value.lo, value.hi] : [value.hi, value.lo]
    const byLog = log.firstChild.checked = app.option('log', value.log ? '1' : '0') === '1' && lo > 0
    const pad = byLog ? 0 : (hi - lo) * .04, a = { lo: lo - pad, hi: hi + pad, log: byLog, col: study.get('value') }
    const xAxis = { whole: true, lo: 0, hi: Math.max(1, study.n - 1), col: Float64Array.from({ length: study.n }, (_, i) => i) }
    const strip = all.length > study.order.length ? 14 : 0, H = f.H - strip // failed trials stand below the values
    const x = positions(study, xAxis, 0, f.W), y = positions(study, a, H, 0, true), mask = app.selection.mask
    if (strip) for (const i of all) if (study.rank[i] !== study.rank[i]) y[i] = f.H - 5
    const seen = trialMarks(f, study, all, x, y, mask, hiddenKinds(app))
    bestLine(f, study, x, positions(study, a, H, 0))
    plot.xAxis(pixels(xAxis, 0, f.W), xAxis, 'trial')
    plot.yAxis(pixels(a, H, 0), a, study.metric)
    drawn = { x, y }
    plot.note.textContent = beyondText(study, a)
    if (!kinds.contains(document.activeElement)) kinds.replaceChildren(...kindLegend(app, () => { kinds.replaceChildren(); plot.draw() }, all))
    plot.pointing((px, py) => {
      const i = nearest(seen, drawn.x, drawn.y, px, py)
      return i < 0 ? null : { text: describe(study, i, study.text(study.get('error')[i])?.slice(0, 120)), x: drawn.x[i], y: drawn.y[i],
        click: () => app.openTrial(i) }
    })
  }
  return plot
}

// A trial that may be the best so far.
const counts = (study, i) => study.rank[i] === study.rank[i] && study.get('feasible')[i]

function bestLine(f, study, x, y) {
  const { ctx } = f, V = study.get('value'), sign = study.maximize ? -1 : 1
  ctx.strokeStyle = css('--b')
  ctx.lineWidth = 2
  ctx.beginPath()
  let best = Infinity, at = 0
  for (let i = 0; i < study.n; i++) if (sign * V[i] < best && counts(study, i)) {
    best < Infinity ? ctx.lineTo(f.left + x[i], f.top + at) : ctx.moveTo(f.left + x[i], f.top + y[i])
    best = sign * V[i]
    at = y[i]
    ctx.lineTo(f.left + x[i], f.top + at)
  }
  if (study.order.length > 1) ctx.lineTo(f.left + f.W, f.top + at)
  ctx.stroke()
}

function drawImportance(card, { overview, go }) {
  const shares = overview.importance, head = el('div', { class: 'head' }, el('h2', {}, 'What mattered'),
    el('small', {}, 'share of the variance over the space; in brackets: within the best fifth'))
  if (!shares) return card.replaceChildren(head,
    el('p', { class: 'empty' }, 'Too few finished trials to say: ten with a value are needed.'))
  const list = Object.entries(shares).sort((p, q) => q[1][0] - p[1][0]), most = Math.max(...list.map(([, s]) => s[2]), 1e-9)
  const body = el('div', { class: 'imp' })
  for (const [name, [share, low, high, first, region, best, better]] of list.slice(0, 14)) {
    const range = best.map(v => typeof v === 'number' ? +v.toPrecision(3) : text(v)).join(' … ')
    const svg = d3.create('svg').attr('width', '100%').attr('height', 16).attr('role', 'img')
      .attr('aria-label', `${name}: ${share.toFixed(2)}, between ${low.toFixed(2)} and ${high.toFixed(2)}`)
    const at = v => 98 * v / most + '%'
    svg.append('rect').attr('y', 3).attr('height', 10).attr('rx', 2).attr('width', at(share)).attr('fill', css('--a'))
    svg.append('line').attr('x1', at(low)).attr('x2', at(high)).attr('y1', 8).attr('y2', 8).attr('stroke', css('--fg'))
      .attr('stroke-width', 1.5)
    for (const v of [low, high]) svg.append('line').attr('x1', at(v)).attr('x2', at(v)).attr('y1', 4).attr('y2', 12)
      .attr('stroke', css('--fg')).attr('stroke-width', 1.5)
    body.append(el('span', { title: `${name}: best at ${range}${better ? `, ${better} is better` : ''}; alone it decides ${first.toFixed(2)}` },
      name, better ? ` ${better === 'lower' ? '↓' : '↑'}` : ''), svg.node(),
      el('span', { class: 'mute' }, `${share.toFixed(2)} (${region.toFixed(2)})`))
  }
  card.replaceChildren(head, body, el('small', {}, 'The whiskers are an interval, from ten parts of the trials. ↓ ↑: lower or higher is better. '),
    el('a', { href: '#view=slices', onclick: e => { e.preventDefault(); go('slices') } }, 'Slices'))
}

// Failures with one cause have one text, apart from numbers.
function drawFailures(card, app) {
  const { study } = app
  const groups = new Map()
  for (let i = study.n - 1; i >= 0; i--) {
    if (!study.isFailed(i)) continue
    const error = study.text(study.get('error')[i]) ?? study.text(study.get('why')[i]) ?? 'no reason is stored'
    const key = study.stateName(i) + error.replace(/0x[0-9a-f]+|\d+/gi, '#')
    const g = groups.get(key) ?? { state: study.stateName(i), error, trials: [] }
    g.trials.push(i)
    groups.set(key, g)
  }
  const list = [...groups.values()].sort((a, b) => b.trials.length - a.trials.length)
  card.hidden = list.length === 0
  card.replaceChildren(el('div', { class: 'head' }, el('h2', {}, 'Failures by cause')),
    table(['trials', 'state', 'cause', 'newest'],
      list.map(g => [g.trials.length, g.state, el('span', { class: 'wrap' }, g.error),
      el('span', {}, g.trials.slice(0, 5).map(i => [trialLink(app, i), ' ']))]), 20))
}
