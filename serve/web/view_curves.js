// Learning curves: all as density, selected and stopped ones as lines; rungs, smoothing.
import { Plot, css, paint, shade } from './plot.js'
import { check, describe, el, num, select, stateColour, table, trialLink, whole } from './format.js'

const LINES_MAX = 60, RUNGS_MAX = 60, NEWS_MS = 5000

// Where a rule of early stopping judges: {at, name, reports}. reports: `at` counts reports, otherwise it has steps. As in
// hpo/stoppers; `e` is complete.
export function rungs(e, last) {
  const at = [], most = e.max_iter ?? Infinity
  if (e.type === 'median') return { at: [e.min_iter], name: 'judged from here on: the rule', reports: true }
  if (e.type === 'hyperband' && e.max_iter && e.s)
    for (let k = 0, r = most / e.eta; k < e.s && r >= 1; k++, r /= e.eta) at.push(Math.trunc(r))
  else for (let r = (e.min_iter || (e.like === 'ray' ? 1 : NaN)) * (e.type === 'asha' ? e.eta ** (e.s ?? 0) : 1), k = 0;
    k < RUNGS_MAX && r <= last && (r < most || e.type === 'asha' && r <= most); k++, r *= e.eta) at.push(e.type === 'hyperband' ? Math.trunc(r) : r)
  return { at, name: e.type === 'hyperband' ? 'bands' : 'rungs', reports: e.type === 'hyperband' }
}

export function mount(root, app) {
  let density = null, lines = null, asked = '', rungText = ''
  const picks = el('span', { class: 'tools' })
  const plot = new Plot({
    title: 'Learning curves', height: 420, label: 'All learning curves as density, and the best selected ones as lines', extras: [picks],
    rows: () => ({ head: ['trial', 'state', 'step', metric()],
      rows: lines ? lines.ids.flatMap((id, k) => points(k).map(p => [id, app.study.stateName(id), ...p])) : [] })
  })
  const legend = el('div', { class: 'legend' })
  plot.card.append(legend)
  const summary = el('section', { class: 'card', 'aria-label': 'Metrics' })
  root.replaceChildren(el('div', { class: 'grid' }, plot.card, summary))
  const metric = () => app.option('metric', app.study.metric ?? app.study.metrics[0]?.name ?? '')
  const isLog = () => app.option('log', app.study.axis('m:last:' + metric())?.log ? '1' : '0') === '1'
  const points = k => d3.range(lines.start[k], lines.start[k + 1]).map(i => [lines.step[i], lines.value[i]])

  function drawPicks() {
    if (picks.contains(document.activeElement)) return
    picks.replaceChildren(select('Metric', app.study.metrics.map(m => [m.name, m.name]), metric(),
      v => { app.setOption('metric', v); asked = ''; load() }),
      select('Lines', [['best', 'the best'], ['stopped', 'stopped early'], ['running', 'running'], ['none', 'no lines']],
        app.option('lines', 'best'), v => { app.setOption('lines', v); load() }),
      check('log', isLog(), on => { app.setOption('log', on ? '1' : '0'); asked = ''; load() }),
      el('label', {}, 'smoothing ', el('input', { type: 'range', min: 0, max: 95, step: 5, value: app.option('smooth', '0'),
        oninput: e => { app.setOption('smooth', e.target.value === '0' ? '' : e.target.value); paintAll() } })))
  }

  // The trials that are drawn as lines: the best of the selected ones of the kind that is asked for.
  function chosen() {
    const { study, selection } = app, kind = app.option('lines', 'best'), ids = [], name = i => study.stateName(i)
    const wanted = { best: () => true, stopped: i => name(i) === 'pruned',
      running: i => !study.isEnded(i) && study.get('steps')[i] > 0, none: () => false }[kind] ?? (() => true)
    for (const i of study.order) if (selection.mask[i] && wanted(i) && ids.push(i) === LINES_MAX) break
    return ids
  }

  // While trials report, the answers for all of them are asked for again only if the page is seen, and not too often.
  let loaded = -Infinity, later = 0
  function loadNews() {
    const wait = loaded + NEWS_MS - performance.now()
    if (wait <= 0 && !document.hidden) return load()
    later ||= setTimeout(() => { later = 0; if (root.isConnected) loadNews()?.catch(e => plot.say(e.message)) }, Math.max(wait, 1000))
  }

  async function load() {
    loaded = performance.now()
    const { study } = app
    drawPicks()
    drawSummary()
    if (!study.metrics.length) return plot.say(study.n ? 'No trial has reported a metric yet.' : 'No trials yet.')
    if (plot.box.clientWidth < 40) return
    const width = Math.min(1200, Math.max(80, plot.box.clientWidth - 66)), log = isLog() ? 1 : 0
    const key = [metric(), width, log, study.seq].join(), ids = chosen(), name = encodeURIComponent(metric())
    if (!density) plot.note.textContent = 'loading …'
    const [grid, some] = await Promise.all([key === asked ? density
      : app.api(`density?metric=${name}&width=${width}&height=384&log=${log}`)
      .then(b => ({ ...b.head, count: b.column('count') })),
      ids.length ? app.api(`curves?metric=${name}&ids=${ids}`)
        .then(b => ({ ids, start: b.column('start'), step: b.column('step'), value: b.column('value') })) : { ids, start: [0] }])
    asked = key
    density = grid
    lines = some
    if (root.isConnected) paintAll()
  }

  function paintAll() {
    if (!density) return
    if (!density.values) return plot.say(`No trial has reported ${metric()} yet.`)
    const f = plot.frame()
    if (!f) return
    const { study } = app, y = (density.log ? d3.scaleLog() : d3.scaleLinear()).domain(density.values).range([f.H, 0])
    const x = d3.scaleLinear().domain(density.steps[0] === density.steps[1] ? [density.steps[0], density.steps[0] + 1]
      : density.steps).range([0, f.W])
    const asDensity = density.curves > lines.ids.length
    if (asDensity) paint(f, shade(density.count, density.width, density.height, css('--rest')))
    f.ctx.save()
    f.ctx.translate(f.left, f.top)
    f.ctx.beginPath()
    f.ctx.rect(0, 0, f.W, f.H)
    f.ctx.clip()
    drawRungs(f, x)
    lines.ids.map((id, k) => k).reverse().forEach(k =>
      stroke(f, x, y, smooth(points(k)), lines.ids[k] === study.best ? css('--b') : stateColour[study.stateName(lines.ids[k])],
      lines.ids[k] === study.best ? 2.6 : 1.1))
    f.ctx.restore()
    plot.xAxis(x, { lo: x.domain()[0], hi: x.domain()[1], whole: true }, 'step')
    plot.yAxis(y, { log: density.log, lo: density.values[0], hi: density.values[1] }, metric())
    plot.note.textContent = `${whole(density.curves)} curves, ${whole(density.points)} points; ${lines.ids.length} as lines`
    const used = [...new Set(lines.ids.map(i => study.stateName(i)))]
    legend.replaceChildren(asDensity ? el('span', {}, el('i', { style: { background: css('--rest') } }), 'all trials') : '',
      ...used.map(s => el('span', {}, el('i', { style: { background: stateColour[s] } }), s)),
      lines.ids.includes(study.best) ? el('span', {}, el('i', { style: { background: css('--b') } }), 'the best trial') : '',
      rungText ? el('span', { class: 'mute' }, rungText) : '')
    plot.pointing((px, py) => {
      let found = null, least = 15 * 15
      lines.ids.forEach((id, k) => { for (const [s, v] of points(k)) { const a = x(s) - px, b = y(v) - py, d = a * a + b * b;
        if (d < least) { least = d; found = { text: describe(study, id, `step ${num(s)}: ${metric()} ${num(v)}`), x: x(s), y: y(v),
        click: () => app.openTrial(id) } } } })
      return found
    })
  }

  function stroke(f, x, y, list, colour, width) {
    f.ctx.strokeStyle = colour
    f.ctx.lineWidth = width
    f.ctx.beginPath()
    list.forEach(([s, v], i) => f.ctx[i ? 'lineTo' : 'moveTo'](x(s), y(v)))
    f.ctx.stroke()
    if (list.length === 1) { f.ctx.fillStyle = colour; f.ctx.fillRect(x(list[0][0]) - 2, y(list[0][1]) - 2, 4, 4) }
  }

  // An exponential mean, without the bias of its beginning.
  function smooth(list) {
    const w = Number(app.option('smooth', '0')) / 100
    let mean = 0, weight = 0
    return w ? list.map(([s, v]) => { mean = w * mean + (1 - w) * v; weight = w * weight + 1 - w; return [s, mean / weight] })
      : list
  }

  // Where the rule judges: dashed lines, and a word about them below the plot.
  function drawRungs(f, x) {
    const e = app.overview.early_terminate, { at, name, reports } = e ? rungs(e, density.steps[1]) : { at: [] }
    const first = e?.type === 'curve' ? Math.min(0, density.steps[0] - 1) : 0 // its times start at 1
    const steps = [...new Set(at.map(r => reports ? stepOfReport(r) : r + first))].filter(s => s >= x.domain()[0] && s <= x.domain()[1])
    rungText = steps.length ? `┆ ${name} of ${e.type}${reports ? ', counted in reports' : ''}` : ''
    if (!steps.length) return
    f.ctx.strokeStyle = css('--mute')
    f.ctx.setLineDash([3, 4])
    f.ctx.beginPath()
    for (const s of steps) { f.ctx.moveTo(x(s), 0); f.ctx.lineTo(x(s), f.H) }
    f.ctx.stroke()
    f.ctx.setLineDash([])
  }

  // The step that most of the drawn curves have at their report number n; NaN if none has so many.
  function stepOfReport(n) {
    const steps = lines.ids.map((_, k) => lines.start[k] + n <= lines.start[k + 1] ? lines.step[lines.start[k] + n - 1] : NaN).filter(s => s === s)
    return d3.quantile(steps.sort(d3.ascending), .5) ?? NaN
  }

  // Min, max and last value of every metric over the selected trials, and the trials that have them.
  function drawSummary() {
    const { study, selection } = app, link = i => i < 0 ? null : trialLink(app, i)
    const rows = study.metrics.map(m => {
      let lo = -1, hi = -1, n = 0, sum = 0
      for (let i = 0; i < study.n; i++) {
        if (!selection.mask[i] || m.last.v[i] !== m.last.v[i]) continue
        n++
        sum += m.last.v[i]
        if (lo < 0 || m.min.v[i] < m.min.v[lo]) lo = i
        if (hi < 0 || m.max.v[i] > m.max.v[hi]) hi = i
      }
      return [m.name, n, lo < 0 ? null : m.min.v[lo], link(lo), hi < 0 ? null : m.max.v[hi], link(hi), n ? sum / n : null]
    })
    summary.replaceChildren(el('div', { class: 'head' }, el('h2', {}, 'Metrics of the selected trials')),
      table(['metric', 'trials', 'least', 'in trial', 'largest', 'in trial', 'mean of the last values'], rows))
  }
  return why => { (why === 'data' ? loadNews() : load())?.catch(e => plot.say(e.message)) }
}
