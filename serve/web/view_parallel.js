// Parallel coordinates: every trial is a line; a brush on an axis selects. s runs from axis to axis, t along an
// axis; on a narrow screen the axes lie horizontally.
import { Plot, css, cut, paint, pixels, shade, ticks } from './plot.js'
import { UNSET, bandOf, place, scaleOf } from './study.js'
import { button, check, el, num, select, text, trialLink, whole } from './format.js'

const FEW = 300 // lines that are drawn as they are; more of them as density
const TOPS = [[0, 'none'], [10, '10 best'], [20, '20 best'], [50, '50 best'], [200, '200 best']]

export function mount(root, app) {
  let g = null, everything = null, all = null, axes = [], drag = null
  const positions = new Map() // axis -> {of, u}: kept while the column is the same
  const byRank = check('value by rank', app.option('rank', '') === '1',
    on => { app.setOption('rank', on ? '1' : ''); app.selection.ranges.delete(on ? 'value' : 'rank'); app.select(() => {}) })
  const hidden = el('span', { class: 'tools' })
  const plot = new Plot({
    title: 'Parallel coordinates', label: 'Parallel coordinates of all trials; a group of axes with brushes',
    extras: [select('Lines of the best trials', TOPS, 20, v => { app.setOption('top', v); draw() }), byRank],
    rows: () => ({ head: ['trial', ...axes.map(a => a.name)], rows: selectedRows(app, axes) })
  })
  plot.box.setAttribute('role', 'group')
  const ranges = el('details', {}, el('summary', {}, 'Ranges by keyboard, hidden axes'), el('div'))
  plot.card.append(el('small', {}, 'Drag along an axis to select, click it to clear. Drag a name, or use the arrow keys '
    + 'on it, to move the axis; Delete hides it.'), ranges)
  const list = el('section', { class: 'card', 'aria-label': 'The best selected trials' })
  root.replaceChildren(el('div', { class: 'grid' }, plot.card, list))

  function currentAxes() {
    const { study } = app, off = new Set(app.option('hide', '').split('\n').filter(Boolean)),
      order = app.option('order', '').split('\n')
    let all = study.axes.map(a => a.isValue && app.option('rank', '') === '1' ? study.valueAxis(true) : a)
    const extra = app.option('metric', '')
    if (extra) { const a = study.axis(extra); if (a) all.splice(all.length - (study.metric ? 1 : 0), 0, a) }
    const at = a => { const k = order.indexOf(a.key); return k < 0 ? 1e6 : k }
    all = all.map((a, k) => [a, at(a), k]).sort((p, q) => p[1] - q[1] || p[2] - q[2]).map(p => p[0])
    return { all, shown: all.filter(a => !off.has(a.key)) }
  }

  function place1(a) {
    const key = [a.key, a.lo, a.hi, a.values?.length, app.study.seq].join(), old = positions.get(a.key)
    if (old?.key === key) return old.u
    const u = place(app.study, a)
    positions.set(a.key, { key, u })
    return u
  }

  // Counts the lines of trials per pixel; want -1: of all of them.
  function lines(count, want) {
    const { tall, ss, st, at, Ta } = g, { n } = app.study, mask = app.selection.mask
    const from = tall ? 0 : Ta - 1, by = tall ? Ta - 1 : 1 - Ta, ids = new Uint32Array(n)
    let chosen = 0
    for (let i = 0; i < n; i++) if (want < 0 || mask[i] === want) ids[chosen++] = i
    for (let k = 0; k + 1 < axes.length; k++) {
      const a = axes[k].u, b = axes[k + 1].u, s0 = at(k), s1 = at(k + 1), step = 1 / (s1 - s0)
      for (let c = 0; c < chosen; c++) {
        const i = ids[c], d = by * (b[i] - a[i]) * step, end = s1 * ss
        let t = from + by * a[i] + g.t0
        for (let p = s0 * ss; p < end; p += ss, t += d) count[p + (t | 0) * st]++
      }
    }
  }

  function layout() {
    const all = currentAxes(), n = all.shown.length, tall = plot.box.clientWidth < 640
    axes = all.shown.map(a => ({ ...a, u: place1(a) })).map(a => ({ ...a, unset: hasUnset(a.u) }))
    drawRanges(all)
    if (n < 2) return plot.say(app.study.n ? 'At least two axes are needed: show a hidden one below.'
      : 'No trials yet: each trial becomes a line here.')
    if (!app.study.n) return plot.say('No trials yet: each trial becomes a line here.')
    const height = tall ? 50 + 74 * (n - 1) : 400
    const f = plot.frame(height, tall ? [24, 16, 22, 16] : [28, 60, 12, 60])
    if (!f) return
    const unset = axes.some(a => a.unset), S = tall ? f.H : f.W, T = tall ? f.W : f.H
    const Ta = unset ? Math.floor(T / (1 - UNSET)) : T
    g = { f, tall, S, T, Ta, t0: tall && unset ? T - Ta : 0, at: k => Math.round(k * (S - 1) / (n - 1)), ss: tall ? f.W : 1,
      st: tall ? 1 : f.W, unset }
    everything = app.study.n > FEW ? new Uint32Array(f.W * f.H) : null
    if (everything) lines(everything, -1)
    drawAxes()
  }

  const hasUnset = u => { for (let i = 0; i < app.study.n; i++) if (u[i] === UNSET) return true; return false }
  const pixel = u => g.tall ? g.t0 + u * (g.Ta - 1) : (1 - u) * (g.Ta - 1)

  function drawAxes() {
    const { f, tall, at } = g, n = axes.length
    f.svg.selectAll('g.axis').data(axes, a => a.key).join('g').attr('class', 'axis').each(function (a, k) {
      const side = tall ? d3.axisBottom : k === n - 1 ? d3.axisRight : d3.axisLeft
      const [x, y] = tall ? [f.left, f.top + at(k)] : [f.left + at(k), f.top]
      const node = d3.select(this).attr('transform', `translate(${x},${y})`)
      node.call(ticks(side(pixels(a, pixel(0), pixel(1))), a, tall ? 4 : 6).tickSizeInner(4).tickPadding(2))
      node.selectAll('text.unset').data(a.unset ? [0] : []).join('text').attr('class', 'unset mute')
        .attr('text-anchor', tall ? 'start' : 'middle')
        .attr('x', 0).attr('y', tall ? 14 : g.T + 8).text('not set')
      label(node, a, k)
      brush(node, a, k)
    })
  }

  function label(node, a, k) {
    const name = node.selectAll('text.name').data([a]).join('text').attr('class', 'name').attr('x', 0)
      .attr('y', g.tall ? -6 : -12)
      .attr('text-anchor', g.tall ? 'start' : k === 0 ? 'start' : k === axes.length - 1 ? 'end' : 'middle')
        .text(cut(a.name) + (a.log ? ' (log)' : ''))
      .attr('tabindex', 0).attr('role', 'button').attr('aria-label',
        `axis ${a.name}, ${k + 1} of ${axes.length}: arrow keys move it, Delete hides it`).style('cursor', 'grab')
    name.on('keydown', () => {
      const e = d3.event, by = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[e.key]
      if (by) move(a.key, k + by)
      else if (e.key === 'Delete' || e.key === 'Backspace') hide(a.key, true)
      else return
      e.preventDefault()
      plot.svg.selectAll('text.name').filter(b => b.key === a.key).nodes()[0]?.focus()
    })
    name.call(d3.drag().on('start', () => { drag = k }).on('drag', () => {
      const s = g.tall ? d3.event.sourceEvent.clientY - plot.box.getBoundingClientRect().top - g.f.top
        : d3.event.sourceEvent.clientX - plot.box.getBoundingClientRect().left - g.f.left
      const to = Math.max(0, Math.min(axes.length - 1, Math.round(s / (g.S - 1) * (axes.length - 1))))
      if (to !== drag) { move(axes[drag].key, to); drag = to }
    }))
  }

  function brush(node, a, k) {
    const { tall } = g, low = pixel(0), high = pixel(1)
    const b = node.selectAll('g.brush').data([0]).join('g').attr('class', 'brush')
    const made = tall ? d3.brushX().extent([[Math.min(low, high), -11], [Math.max(low, high), 11]]) : d3.brushY()
      .extent([[-11, high], [11, low]])
    made.on('brush end', null)
    b.call(made)
    const range = app.selection.ranges.get(a.key)
    b.call(made.move, range ? unitRange(a, range).map(pixel).sort(d3.ascending) : null)
    made.on('brush end', function () {
      const s = d3.brushSelection(this)
      app.select(ranges => s ? ranges.set(a.key, fromUnits(a, s.map(p => tall ? (p - g.t0) / (g.Ta - 1) : 1 - p / (g.Ta - 1))))
        : ranges.delete(a.key), 'brush')
    })
  }

  function move(key, to) {
    const keys = currentAxes().all.map(a => a.key), shown = axes.map(a => a.key)
    if (to < 0 || to >= shown.length) return
    const target = shown[to], from = keys.indexOf(key), at = keys.indexOf(target)
    keys.splice(from, 1)
    keys.splice(at, 0, key)
    app.setOption('order', keys.join('\n'))
    draw()
  }

  function hide(key, off) {
    const set = new Set(app.option('hide', '').split('\n').filter(Boolean))
    off ? set.add(key) : set.delete(key)
    app.setOption('hide', [...set].join('\n'))
    if (off) app.selection.ranges.delete(key)
    app.select(() => {})
  }

  function drawRanges({ all, shown }) {
    if (ranges.contains(document.activeElement)) return
    const metrics = [['', 'no other metric'], ...app.study.metrics.flatMap(m =>
      ['min', 'max', 'last'].map(p => [`m:${p}:${m.name}`, `${m.name}, ${p}`]))]
    hidden.replaceChildren(select('Another metric', metrics, app.option('metric', ''),
      v => { app.setOption('metric', v); draw() }))
    ranges.lastChild.replaceChildren(hidden, el('div', { class: 'scroll' }, el('table', {}, all.map(a => {
      const range = app.selection.ranges.get(a.key)
      const input = (k, name) => el('input', { size: 9, 'aria-label': `${name} of ${a.name}`,
        value: range ? a.category ? range[k] : Number(range[k].toPrecision(5)) : '',
        placeholder: a.category ? String(k ? a.values.length - 1 : 0) : num(k ? Math.max(a.lo, a.hi) : Math.min(a.lo, a.hi)),
        onchange: e => {
          const now = app.selection.ranges.get(a.key) ?? (a.category ? [0, a.values.length - 1]
            : [Math.min(a.lo, a.hi), Math.max(a.lo, a.hi)]), x = Number(e.target.value), next = [...now]
          next[k] = x
          app.select(r => e.target.value.trim() === '' || !Number.isFinite(x) ? r.delete(a.key) : r.set(a.key, next))
        } })
      return el('tr', {}, el('td', {}, check(a.name, shown.includes(a), on => hide(a.key, !on))),
        el('td', {}, input(0, 'least'), ' to ', input(1, 'largest'), ' ',
        a.category ? el('small', {}, a.values.map((v, k) => `${k}: ${text(v)}`).join(', ')) : null))
    }))))
  }

  function drawLines() {
    if (!g || plot.box.hidden) return
    const { f } = g, { selection, study } = app, part = selection.count < study.n
    f.ctx.clearRect(0, 0, f.w, f.height)
    let on = everything
    if (!everything) for (const want of [0, 1]) strokes(every(want), css(want ? '--a' : '--rest'), want ? .6 : .45)
    else if (part) { // only the smaller part is counted again; the other one is the difference
      const few = selection.count * 2 < study.n, some = new Uint32Array(everything.length)
      lines(some, few ? 1 : 0)
      if (!few) for (let i = 0; i < some.length; i++) some[i] = everything[i] - some[i]
      on = some
      const colour = css('--rest')
      if (all?.of !== everything || all.colour !== colour) all = { of: everything, colour,
        image: shade(everything, f.W, f.H, colour) }
      paint(f, all.image)
    }
    if (on) paint(f, shade(on, f.W, f.H, css('--a')))
    strokes(study.order.filter(i => selection.mask[i]).slice(0, Number(app.option('top', '20'))), css('--b'), .65)
    plot.note.textContent = `${whole(selection.count)} of ${whole(study.n)} trial${study.n === 1 ? '' : 's'} selected`
  }

  const every = want => d3.range(app.study.n).filter(i => app.selection.mask[i] === want)

  function strokes(ids, colour, alpha) {
    const { ctx, left, top } = g.f
    ctx.strokeStyle = colour
    ctx.globalAlpha = alpha
    ctx.beginPath()
    for (const i of ids) axes.forEach((a, k) => {
      const s = g.at(k), t = pixel(a.u[i]), [x, y] = g.tall ? [t, s] : [s, t]
      ctx[k ? 'lineTo' : 'moveTo'](left + x, top + y)
    })
    ctx.stroke()
    ctx.globalAlpha = 1
  }

  function drawList() {
    const { study, selection } = app, best = []
    for (const i of study.order) if (selection.mask[i] && best.push(i) === 12) break
    list.hidden = !best.length
    list.replaceChildren(el('div', { class: 'head' }, el('h2', {}, 'The best selected trials'),
      el('small', {}, `${whole(selection.count)} selected`), el('span', { class: 'grow' }),
      button('All of them', () => app.go('table'))),
      el('div', { class: 'scroll' }, el('table', {},
        el('thead', {}, el('tr', {}, el('th', { scope: 'col' }, 'trial'),
          axes.map(a => el('th', { scope: 'col', class: a.category ? null : 'num' }, a.name)))),
        el('tbody', {}, best.map(i => el('tr', {}, el('td', {}, trialLink(app, i)),
          axes.map(a => el('td', { class: a.category ? null : 'num' }, show(a, i)))))))))
  }

  function draw(why) {
    if (why === 'brush') { drawLines(); drawList(); return }
    layout()
    drawLines()
    drawList()
  }
  return draw
}

const show = (a, i) => a.category ? a.col[i] < 0 ? 'not set' : text(a.values[a.col[i]]) : a.col[i] === a.col[i] ? num(a.col[i])
  : 'not set'

function selectedRows({ study, selection }, axes) {
  const rows = []
  for (let i = 0; i < study.n; i++) if (selection.mask[i]) rows.push([i,
    ...axes.map(a => a.category ? a.col[i] < 0 ? null : text(a.values[a.col[i]]) : a.col[i])])
  return rows
}

// A range in the axis's unit and in 0..1. Of a category: the positions of its values that the brush touches.
function unitRange(a, [from, to]) {
  if (a.category) {
    const band = bandOf(a), edge = (k, end) => band(Math.max(0, Math.min(a.values.length - 1, k))) + (end ? band.bandwidth() : 0)
    return [edge(Math.ceil(from), false), edge(Math.floor(to), true)]
  }
  const s = scaleOf(a)
  return [s(from), s(to)].map(u => Math.max(0, Math.min(1, u)))
}

function fromUnits(a, units) {
  const [low, high] = units.map(u => Math.max(0, Math.min(1, u))).sort(d3.ascending)
  if (a.category) {
    const band = bandOf(a), hit = a.values.map((_, k) => k).filter(k => band(k) + band.bandwidth() >= low && band(k) <= high)
    return hit.length ? [hit[0], hit.at(-1)] : [-1, -1]
  }
  const s = scaleOf(a), ends = [low, high].map(u => u <= 0 || u >= 1 ? (u <= 0 ? open(a, true) : open(a, false)) : s.invert(u))
  return ends.sort(d3.ascending)
}

// An end of the axis also selects what lies beyond it: values that are clamped to the end.
const open = (a, low) => a.isValue ? (low ? a.lo < a.hi : a.lo > a.hi) ? -1e308 : 1e308 : low ? a.lo : a.hi
