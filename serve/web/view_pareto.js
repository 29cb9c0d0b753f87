// Pareto front: the trials that no other trial beats in both metrics.
import { Plot, css, marks, nearest, pixels, positions } from './plot.js'
import { el, num, select, table, text, trialLink, whole } from './format.js'

// The ids of the trials that no other one dominates, by x. signs: 1 if a smaller value is better, else -1.
export function front(ids, x, y, signs) {
  const known = Array.from(ids).filter(i => x[i] === x[i] && y[i] === y[i])
    .sort((a, b) => signs[0] * (x[a] - x[b]) || signs[1] * (y[a] - y[b]) || a - b)
  const out = []
  let best = Infinity
  for (const i of known) if (signs[1] * y[i] < best) { best = signs[1] * y[i]; out.push(i) }
  return out
}

export function mount(root, app) {
  let on = []
  const picks = el('span', { class: 'tools' }), list = el('section', { class: 'card', 'aria-label': 'Trials of the front' })
  const plot = new Plot({ title: 'Pareto front', height: 420, extras: [picks], label: 'Two metrics of all trials, and the front',
    rows: () => ({ head: ['trial', ...keys(), 'on the front'],
    rows: Array.from(app.study.order, i => [i, ...axes().map(a => a.col[i]), on.includes(i) ? 'yes' : '']) }) })
  root.replaceChildren(el('div', { class: 'grid' }, plot.card, list))

  const goals = () => Object.fromEntries((app.study.objectives ?? []).map(o => [o.name, o.maximize]))
  function keys() {
    const names = app.study.metrics.map(m => m.name),
      wanted = (app.study.objectives ?? []).map(o => o.name).filter(n => names.includes(n))
    const x = names.includes(app.option('x', '')) ? app.option('x', '') : wanted[0] ?? names[0]
    const y = names.includes(app.option('y', '')) && app.option('y', '') !== x ? app.option('y', '') : wanted.find(n => n !== x)
      ?? names.find(n => n !== x)
    return [x, y]
  }
  // The sweep's first metric has its value by the sweep file's rule; another one its last value.
  const axis = name => name === app.study.metric
    ? { ...app.study.metricAxis(name, 'last'), col: app.study.get('value'), name, ...extent(app.study.get('value')) }
    : { ...app.study.metricAxis(name, 'last'), name }
  const extent = col => { const [lo, hi] = app.study.extent(col); return { lo, hi } }
  const axes = () => keys().map(axis)
  const sign = name => app.option('goal.' + name, goals()[name] ? 'max' : 'min') === 'max' ? -1 : 1

  return function draw() {
    const { study } = app, [a, b] = keys()
    if (!b) { list.hidden = true; return plot.say(study.n ? 'A front needs two metrics, and the trials report fewer.'
      : 'No trials yet.') }
    list.hidden = false
    if (!picks.contains(document.activeElement)) {
      const names = study.metrics.map(m => [m.name, m.name]),
        goal = name => select(`Goal of ${name}`, [['min', 'minimize'], ['max', 'maximize']], sign(name) < 0 ? 'max' : 'min',
        v => { app.setOption('goal.' + name, v); draw() })
      picks.replaceChildren(select('Horizontal metric', names, a, v => { app.setOption('x', v); draw() }), goal(a),
        select('Vertical metric', names, b, v => { app.setOption('y', v); draw() }), goal(b))
    }
    const f = plot.frame()
    if (!f) return
    const [ax, ay] = axes(), x = positions(study, ax, 6, f.W - 6), y = positions(study, ay, f.H - 6, 6),
      signs = [sign(a), sign(b)]
    on = front(study.order, ax.col, ay.col, signs)
    marks(f, study.order, x, y, app.selection.mask)
    f.ctx.strokeStyle = f.ctx.fillStyle = css('--b')
    f.ctx.lineWidth = 1.6
    f.ctx.beginPath()
    on.forEach((i, k) => { if (k) f.ctx.lineTo(f.left + x[i], f.top + y[on[k - 1]]);
      f.ctx[k ? 'lineTo' : 'moveTo'](f.left + x[i], f.top + y[i]) })
    f.ctx.stroke()
    for (const i of on) { f.ctx.beginPath(); f.ctx.arc(f.left + x[i], f.top + y[i], 4, 0, 7); f.ctx.fill() }
    plot.xAxis(pixels(ax, 6, f.W - 6), ax, a)
    plot.yAxis(pixels(ay, f.H - 6, 6), ay, b)
    plot.note.textContent = `${whole(on.length)} trial${on.length === 1 ? '' : 's'} on the front`
    plot.pointing((px, py) => { const i = nearest(study.order, x, y, px, py);
      return i < 0 ? null : { text: `trial ${i}: ${num(ax.col[i])}, ${num(ay.col[i])}`, x: x[i], y: y[i],
      click: () => app.openTrial(i) } })
    const params = study.params.filter(p => p.varies)
    list.replaceChildren(el('div', { class: 'head' }, el('h2', {}, 'Trials of the front')),
      table(['trial', a, b, ...params.map(p => p.name)],
      on.map(i => [trialLink(app, i), ax.col[i], ay.col[i],
      ...params.map(p => { const v = study.paramText(p, i);
      return v === null ? 'not set' : typeof v === 'number' ? v : text(v) })]), 100))
  }
}
