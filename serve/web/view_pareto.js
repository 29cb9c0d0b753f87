// Pareto front: the trials that no other trial beats in both metrics.
import { Plot, css, hiddenKinds, kindLegend, nearest, pixels, positions, trialMarks } from './plot.js'
import { describe, el, num, select, table, text, trialLink, whole } from './format.js'

// The ids of the trials that no other one dominates, by the first column. signs: 1 if a smaller value is better, else -1.
export function front(ids, columns, signs) {
  const value = (k, i) => signs[k] * columns[k][i], out = []
  const known = Array.from(ids).filter(i => columns.every(c => c[i] === c[i]))
    .sort((a, b) => { for (const k of columns.keys()) if (value(k, a) !== value(k, b)) return value(k, a) - value(k, b); return a - b })
  // The newest one beats most of the rest: the search mostly ends there.
  for (const i of known) if (out.findLastIndex(j => columns.every((_, k) => value(k, j) <= value(k, i))) < 0) out.push(i)
  return out
}

// The objectives that trials have reported, each as an axis with the values that count.
export const goalAxes = study => (study.objectives ?? []).map(o => {
  const m = study.metrics.find(m => m.name === o.name)
  return m && { name: o.name, maximize: o.maximize, col: o.name === study.metric ? study.get('value') : m.last.v }
}).filter(Boolean)

export function mount(root, app) {
  let on = []
  const picks = el('span', { class: 'tools' }), kinds = el('span', { class: 'kinds' }), list = el('section', { class: 'card', 'aria-label': 'Trials of the front' })
  const plot = new Plot({ title: 'Pareto front', height: 420, extras: [kinds, picks], label: 'Two metrics of all trials, and the front',
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
    on = front(study.order.filter(i => study.get('feasible')[i]), [ax.col, ay.col], signs)
    const seen = trialMarks(f, study, study.order, x, y, app.selection.mask, hiddenKinds(app))
    if (!kinds.contains(document.activeElement)) kinds.replaceChildren(...kindLegend(app, () => { kinds.replaceChildren(); draw() }, study.order))
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
    plot.pointing((px, py) => { const i = nearest(seen, x, y, px, py);
      return i < 0 ? null : { text: describe(study, i, `${a} ${num(ax.col[i])}, ${b} ${num(ay.col[i])}`), x: x[i], y: y[i],
      click: () => app.openTrial(i) } })
    const params = study.params.filter(p => p.varies)
    list.replaceChildren(el('div', { class: 'head' }, el('h2', {}, 'Trials of the front')),
      table(['trial', a, b, ...params.map(p => p.name)],
      on.map(i => [trialLink(app, i), ax.col[i], ay.col[i],
      ...params.map(p => { const v = study.paramText(p, i);
      return v === null ? 'not set' : typeof v === 'number' ? v : text(v) })]), 100))
  }
}
