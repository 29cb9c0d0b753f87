// Learning curves: all as density, selected and stopped ones as lines; rungs, smoothing.
import { Plot, css, paint, shade } from './plot.js'
import { check, el, num, select, stateColour, table, trialLink, whole } from './format.js'

const LINES_MAX = 60

export function mount(root, app) {
  let density = null, lines = null, asked = ''
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

  async function load() {
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
      lines.ids.includes(study.best) ? el('span', {}, el('i', { style: { background: css('--b') } }), 'the best trial') : '')
    plot.pointing((px, py) => {
      let found = null, least = 15 * 15
      lines.ids.forEach((id, k) => { for (const [s, v] of points(k)) { const a = x(s) - px, b = y(v) - py, d = a * a + b * b;
        if (d < least) { least = d; found = { text: `trial ${id}, step ${num(s)}: ${num(v)}`, x: x(s), y: y(v),
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
  }

  // An exponential mean, without the bias of its beginning.
  function smooth(list) {
    const w = Number(app.option('smooth', '0')) / 100
    let mean = 0, weight = 0
    return w ? list.map(([s, v]) => { mean = w * mean + (1 - w) * v; weight = w * weight + 1 - w; return [s, mean / weight] })
      : list
  }

  function drawRungs(f, x) {
    const e = app.overview.early_terminate, least = e?.min_iter, eta = e?.eta ?? 3, most = e?.max_iter ?? density.steps[1]
    if (!least && !e?.s) return
    f.ctx.strokeStyle = css('--mute')
    f.ctx.setLineDash([3, 4])
    f.ctx.beginPath()
    for (let r = least || 1, k = 0; r <= most && k < 40; r *= Math.max(eta, 1.1), k++) { f.ctx.moveTo(x(r), 0);
      f.ctx.lineTo(x(r), f.H) }
    f.ctx.stroke()
    f.ctx.setLineDash([])
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
  return why => { load().catch(e => plot.say(e.message)) }
}
