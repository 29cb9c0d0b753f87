// Timeline: which trial each slot of each node has run, when; losses, pauses and idle time.
import { Plot, css } from './plot.js'
import { duration, el, num, stateColour, table, whole } from './format.js'

const LANE_MAX = 18, LOST = new Set(['lost', 'preempted', 'node', 'drain'])

// Packs the leases of each node into lanes: {nodes: [{name, lanes, busy, from, to, leases: []}], from, to}.
export function pack(study, now) {
  const L = study.leases, nodes = new Map(), ids = d3.range(L.n).filter(k => L.begin.v[k] === L.begin.v[k])
    .sort((a, b) => L.begin.v[a] - L.begin.v[b])
  const end = k => L.end.v[k] === L.end.v[k] ? L.end.v[k] : now
  let from = Infinity, to = -Infinity
  for (const k of ids) {
    const name = study.text(L.node.v[k]) ?? '?'
    const node = nodes.get(name) ?? { name, ends: [], leases: [], busy: 0 }
    nodes.set(name, node)
    let lane = node.ends.findIndex(t => t <= L.begin.v[k] + 1e-3)
    if (lane < 0) lane = node.ends.length
    node.ends[lane] = end(k)
    node.busy += end(k) - L.begin.v[k]
    node.leases.push({ k, lane, begin: L.begin.v[k], end: end(k), trial: L.trial.v[k] })
    from = Math.min(from, L.begin.v[k])
    to = Math.max(to, end(k))
  }
  return { nodes: [...nodes.values()].sort((a, b) => d3.ascending(a.name, b.name)), from, to }
}

export function mount(root, app) {
  let zoom = d3.zoomIdentity, packed = null, at = ''
  const plot = new Plot({
    title: 'Timeline', label: 'Leases of trials on the slots of each node, over time', margin: [8, 14, 28, 110],
    rows: () => ({ head: ['lease', 'trial', 'node', 'slot', 'begin s', 'end s', 'state of the trial', 'why it ended'],
      rows: packed.nodes.flatMap(n => n.leases.map(l =>
      [l.k + 1, l.trial, n.name, l.lane, l.begin, l.end, app.study.stateName(l.trial),
      app.study.text(app.study.leases.why.v[l.k])])) })
  })
  const legend = el('div', { class: 'legend' }), usage = el('section', { class: 'card', 'aria-label': 'Use of the nodes' })
  plot.card.append(legend, el('small', {}, 'The wheel with Ctrl or Shift zooms; drag to move. Gaps are idle time; '
    + 'an edge marks a lease that was lost or preempted.'))
  root.replaceChildren(el('div', { class: 'grid' }, plot.card, usage))

  function draw() {
    const { study, overview } = app, now = (overview.now_ms - study.t0) / 1000
    if (!study.leases.n) return plot.say('No trial has started yet.')
    const live = overview.state === 'running', key = `${study.seq} ${live ? now : ''}`
    if (key !== at) { packed = pack(study, live ? now : lastEnd(study)); at = key }
    const lanes = d3.sum(packed.nodes, n => n.ends.length), each = Math.max(3, Math.min(LANE_MAX, 520 / lanes)),
      gap = packed.nodes.length > 1 ? 6 : 0
    const f = plot.frame(36 + lanes * each + gap * packed.nodes.length,
      [8, 14, 28, Math.min(130, 20 + 7 * d3.max(packed.nodes, n => n.name.length))])
    if (!f) return
    const base = d3.scaleLinear().domain([packed.from, Math.max(packed.to, packed.from + 1)]).range([0, f.W]),
      x = zoom.rescaleX(base)
    const ctx = f.ctx, state = study.get('state')
    ctx.save()
    ctx.translate(f.left, f.top)
    ctx.beginPath()
    ctx.rect(0, 0, f.W, f.H)
    ctx.clip()
    let y = 0
    const [x0, x1] = x.domain(), scale = f.W / (x1 - x0), edge = css('--fg')
    for (const n of packed.nodes) {
      n.top = y
      ctx.fillStyle = css('--soft')
      ctx.fillRect(0, y, f.W, n.ends.length * each)
      for (const l of n.leases) {
        if (l.end < x0 || l.begin > x1) continue
        const a = (l.begin - x0) * scale, w = Math.max(.7, (l.end - l.begin) * scale - .5)
        ctx.fillStyle = stateColour[study.states[state[l.trial]]]
        ctx.globalAlpha = app.selection.mask[l.trial] ? 1 : .2
        ctx.fillRect(a, y + l.lane * each + .5, w, each - 1)
        if (!LOST.has(study.text(study.leases.why.v[l.k]))) continue
        ctx.fillStyle = edge
        ctx.fillRect(a + w - 2, y + l.lane * each + .5, 2, each - 1)
      }
      ctx.globalAlpha = 1
      y += n.ends.length * each + gap
    }
    ctx.restore()
    plot.group('names').selectAll('text').data(packed.nodes, n => n.name).join('text').attr('class', 'name')
      .attr('text-anchor', 'end').attr('x', -6).attr('y', n => n.top + Math.max(9, n.ends.length * each / 2 + 4))
      .text(n => n.name.slice(0, 18))
    plot.group('x', f.left, f.top + f.H).call(d3.axisBottom(x).ticks(f.W / 100).tickFormat(duration).tickSizeOuter(0))
    const hit = plot.pointing((px, py) => {
      const t = x.invert(px), n = packed.nodes.find(n => py >= n.top && py < n.top + n.ends.length * each)
      const l = n?.leases.find(l => l.lane === Math.floor((py - n.top) / each) && l.begin <= t && l.end >= t)
      return l ? { bar: true, text: `trial ${l.trial}, ${study.stateName(l.trial)}, ${duration(l.end - l.begin)}`, x: px, y: py,
        click: () => app.openTrial(l.trial) } : null
    })
    const all = [[0, 0], [f.W, f.H]]
    hit.call(d3.zoom().scaleExtent([1, 5000]).extent(all).translateExtent(all)
      .filter(() => d3.event.type !== 'wheel' || d3.event.ctrlKey || d3.event.shiftKey)
      .on('zoom', () => { zoom = d3.event.transform; requestAnimationFrame(draw) })).on('dblclick.zoom', null)
    const used = [...new Set(packed.nodes.flatMap(n => n.leases.map(l => study.stateName(l.trial))))]
    legend.replaceChildren(...used.map(s => el('span', {}, el('i', { style: { background: stateColour[s] } }), s)))
    drawUsage()
  }

  function drawUsage() {
    const span = packed.to - packed.from, { resources } = app.overview
    usage.replaceChildren(el('div', { class: 'head' }, el('h2', {}, 'Use of the nodes'),
      el('small', {}, `from the first lease to the last, ${duration(span)}`)),
      table(['node', 'slots used', 'leases', 'time of trials', resources.gpus > 0 ? 'GPU hours' : null, 'idle'].filter(Boolean),
        packed.nodes.map(n => [n.name, n.ends.length, n.leases.length, duration(n.busy),
        ...(resources.gpus > 0 ? [Number((n.busy * resources.gpus / 3600).toPrecision(3))] : []),
          `${num(Number((100 * Math.max(0, 1 - n.busy / (span * n.ends.length || 1))).toPrecision(2)))} %`])))
    const n = packed.nodes.length
    plot.note.textContent = `${whole(app.study.leases.n)} leases on ${n} node${n === 1 ? '' : 's'}`
  }
  return draw
}

function lastEnd(study) {
  let last = 0
  for (let k = 0; k < study.leases.n; k++) if (study.leases.end.v[k] > last) last = study.leases.end.v[k]
  return last
}
