// Slices and contours: the model's expectation with its uncertainty, or the density of the data.
import { Plot, beyondText, css, hiddenKinds, nearest, pixels, positions, trialMarks } from './plot.js'
import { describe, el, num, select, text } from './format.js'

const CELLS = 64, LEVELS = 12, SMOOTH = 48, CONTOUR_MIN = 5

export function mount(root, app) {
  const slices = el('div', { class: 'small' }), parts = new Map(), models = new Map(), model = el('p', { class: 'mute' })
  let surface = null, surfaceKey = ''
  const picks = el('span', { class: 'tools' })
  const contour = new Plot({ title: 'Contour', height: 430, margin: [22, 70, 40, 70], extras: [picks],
    label: 'Expected value over two parameters',
    rows: () => ({ head: ['trial', ...pair().map(a => a.name), app.study.metric],
      rows: Array.from(app.study.order, i => [i, ...pair().map(a => cell(a, i)), app.study.get('value')[i]]) }) })
  root.replaceChildren(el('div', { class: 'grid' }, contour.card,
    el('section', { class: 'card', 'aria-label': 'Slices' }, el('div', { class: 'head' }, el('h2', {}, 'Slices')), model,
    slices)))
  const axes = () => app.study.axes.filter(a => a.param)
  const cell = (a, i) => a.category ? a.col[i] < 0 ? null : text(a.values[a.col[i]]) : a.col[i]
  const dim = a => app.study.params.filter(p => p.varies).indexOf(a.param)

  function pair() {
    const list = axes(), shares = app.overview.importance ?? {},
      by = [...list].sort((p, q) => (shares[q.name]?.[0] ?? 0) - (shares[p.name]?.[0] ?? 0))
    const x = list.find(a => a.key === app.option('x', '')) ?? by[0]
    return [x, list.find(a => a.key === app.option('y', '') && a !== x) ?? by.find(a => a !== x)]
  }

  function draw() {
    const { study } = app, list = axes()
    if (!study.order.length) { contour.say(study.n ? 'No values yet.' : 'No trials yet.'); return }
    drawPicks(list)
    if (study.order.length < CONTOUR_MIN) contour.say(`A contour needs ${CONTOUR_MIN} trials with a value.`)
    else if (list.length > 1) drawContour().catch(e => contour.say(e.message))
    else contour.say('A contour needs two parameters that vary.')
    for (const a of list) {
      const p = parts.get(a.key) ?? slicePlot(a)
      if (!parts.has(a.key)) { parts.set(a.key, p); slices.append(p.card) }
      p.draw(a)
    }
    loadModels(list)
  }

  function drawPicks(list) {
    if (picks.contains(document.activeElement)) return
    const [x, y] = pair(), names = list.map(a => [a.key, a.name])
    if (!y) return picks.replaceChildren()
    picks.replaceChildren(select('Horizontal parameter', names, x.key, v => { app.setOption('x', v); draw() }),
      select('Vertical parameter', names, y.key, v => { app.setOption('y', v); draw() }),
      select('Shown', [['median', 'expected value'], ['sd', 'uncertainty']], app.option('shown', 'median'),
        v => { app.setOption('shown', v); draw() }))
  }

  // ---- the contour

  async function drawContour() {
    const [x, y] = pair(), key = [x.key, y.key, app.study.seq, app.study.epoch].join()
    if (key !== surfaceKey) {
      surfaceKey = key
      surface = null
      if (app.overview.method === 'bayes') {
        contour.note.textContent = 'loading the model …'
        const got = await app.api(`surface?x=${dim(x)}&y=${dim(y)}&cells=${CELLS}`).catch(() => null)
        if (key !== surfaceKey) return
        surface = got?.head && { ...got.head, median: got.column('median'), low: got.column('low'), high: got.column('high') }
      }
    }
    if (root.isConnected) paintContour(x, y)
  }

  // The mean of the trials near each cell; NaN where there are none.
  function meanOfData(x, y) {
    const { study } = app, V = study.get('value'), size = a => a.category ? a.values.length : SMOOTH, w = size(x), h = size(y)
    const cellOf = a => a.category ? a.col : positions(study, a, 0, SMOOTH - .001), px = cellOf(x), py = cellOf(y)
    let sum = new Float64Array(w * h), weight = new Float64Array(w * h)
    const a = study.valueAxis(false), low = Math.min(a.lo, a.hi), high = Math.max(a.lo, a.hi)
    for (const i of study.order) {
      if (!(px[i] >= 0 && py[i] >= 0)) continue
      const k = (py[i] | 0) * w + (px[i] | 0)
      sum[k] += Math.min(high, Math.max(low, V[i]))
      weight[k]++
    }
    const blurred = a => blur(a, w, h, x.category ? 0 : 1, y.category ? 0 : 1)
    for (let pass = 0; pass < 3; pass++) { sum = blurred(sum); weight = blurred(weight) }
    return { w, h, z: Float64Array.from(sum, (s, k) => weight[k] > .02 ? s / weight[k] : NaN) }
  }

  function paintContour(x, y) {
    const f = contour.frame()
    if (!f) return
    const { study } = app, sd = app.option('shown', 'median') === 'sd', H = f.H
    const grid = surface ? { w: surface.xs.length, h: surface.ys.length,
      z: Float64Array.from(surface.median, (m, k) => sd ? (surface.high[k] - surface.low[k]) / 3.92 : m) } : meanOfData(x, y)
    const seen = grid.z.filter(z => z === z).sort(),
      colour = d3.scaleSequential(sd || study.maximize ? d3.interpolateViridis : t => d3.interpolateViridis(1 - t))
      .domain([d3.quantile(seen, .02), d3.quantile(seen, .98)]).clamp(true)
    const along = (a, values, size) => surface || a.category ? placed(a, values ?? a.values, size) : t => t / SMOOTH * size
    const place = [along(x, surface?.xs, f.W), along(y, surface?.ys, H)]
    f.ctx.save()
    f.ctx.translate(f.left, f.top)
    f.ctx.beginPath()
    f.ctx.rect(0, 0, f.W, H)
    f.ctx.clip()
    if (x.category || y.category) cells(f, grid, place, colour)
    else {
      const path = d3.geoPath(d3.geoTransform({ point(a, b) { this.stream.point(place[0](a), H - place[1](b)) } }), f.ctx),
        worst = seen.length ? seen[0] - 1 : 0
      const levels = [...new Set(d3.range(LEVELS).map(k => d3.quantile(seen, k / LEVELS)))]
      for (const c of d3.contours().size([grid.w, grid.h])
        .thresholds(levels)(grid.z.map(z => z === z ? z : worst - 1e9))) { f.ctx.fillStyle = colour(c.value); f.ctx.beginPath();
        path(c); f.ctx.fill() }
    }
    const px = positions(study, x, 0, f.W), py = positions(study, y, H, 0)
    f.ctx.restore()
    f.ctx.fillStyle = '#fff'
    f.ctx.strokeStyle = '#000'
    f.ctx.lineWidth = .6
    f.ctx.beginPath()
    const every = Math.ceil(study.order.length / 1500)
    for (let k = 0; k < study.order.length; k += every) { const i = study.order[k];
      if (app.selection.mask[i] && px[i] === px[i] && py[i] === py[i]) { f.ctx.moveTo(f.left + px[i] + 1.8, f.top + py[i]);
      f.ctx.arc(f.left + px[i], f.top + py[i], 1.8, 0, 7) } }
    f.ctx.fill()
    f.ctx.stroke()
    contour.group('x', f.left, f.top + H).call(g => contour.xAxis(pixels(x, 0, f.W), x, null))
    contour.yAxis(pixels(y, H, 0), y, y.name)
    contour.group('xname', f.left, f.top + H).selectAll('text').data([x.name]).join('text').attr('class', 'name')
      .attr('x', f.W / 2).attr('y', 34).attr('text-anchor', 'middle').text(s => s)
    drawKey(f, colour)
    const missing = app.overview.method === 'bayes' ? ' (the model needs more finished trials, and at most 5,000)' : ''
    contour.note.textContent = !surface ? 'mean of the trials nearby' + missing
      : `the model's ${sd ? 'standard deviation' : 'expectation'} through trial ${surface.at}; dots are trials`
    contour.pointing((ax, ay) => { const i = nearest(study.order, px, py, ax, ay);
      return i < 0 ? null : { text: describe(study, i), x: px[i], y: py[i],
      click: () => app.openTrial(i) } })
  }

  // From a position in the grid to pixels: cells have centres at the values that the server has sent.
  function placed(a, values, size) {
    if (a.category) { const s = pixels(a, 0, size);
      return t => s(Math.min(values.length - 1, Math.floor(t))) + (t - Math.floor(t)) * s.bandwidth() }
    const s = pixels(a, 0, size), at = values.map(v => s(v)), n = at.length
    return t => { const u = Math.max(0, Math.min(n - 1, t - .5)), k = Math.min(n - 2, Math.floor(u));
      return n < 2 ? size / 2 : t < .5 ? at[0] * t * 2 : t > n - .5 ? at[n - 1] + (size - at[n - 1]) * (t - n + .5) * 2 : at[k]
      + (at[k + 1] - at[k]) * (u - k) }
  }

  function cells(f, grid, [px, py], colour) {
    const eps = 1e-6
    for (let j = 0; j < grid.h; j++) for (let i = 0; i < grid.w; i++) {
      const z = grid.z[j * grid.w + i]
      if (z !== z) continue
      const x0 = px(i), x1 = px(i + 1 - eps), y0 = py(j), y1 = py(j + 1 - eps)
      f.ctx.fillStyle = colour(z)
      f.ctx.fillRect(x0, f.H - y1, x1 - x0 + .6, y1 - y0 + .6)
    }
  }

  function drawKey(f, colour) {
    const key = d3.scaleLinear().domain(colour.domain()).range([f.H, 0])
    for (let y = 0; y < f.H; y++) { f.ctx.fillStyle = colour(key.invert(y));
      f.ctx.fillRect(f.left + f.W + 10, f.top + y, 10, 1.5) }
    contour.group('key', f.left + f.W + 20, f.top).call(d3.axisRight(key).ticks(6).tickFormat(num)).select('.domain').remove()
  }

  // ---- slices

  async function loadModels(list) {
    const stamp = `${app.study.epoch} ${app.study.seq}`
    if (!models.size) model.textContent = 'Each point is a trial.'
    if (app.overview.method !== 'bayes' || models.stamp === stamp) return
    models.stamp = stamp
    for (const a of list) {
      const got = await app.api(`surface?x=${dim(a)}&cells=${CELLS}`).catch(() => null)
      if (!got?.head || !root.isConnected || models.stamp !== stamp) return
      models.set(a.key, { ...got.head, median: got.column('median'), low: got.column('low'), high: got.column('high') })
      model.textContent = `The line is what the model expects through trial ${got.head.at}, the band its interval of 95 %. `
        + 'Each point is a trial.'
      parts.get(a.key).draw(a)
    }
  }

  function slicePlot(first) {
    let a = first
    const plot = new Plot({ title: a.name, height: 200, margin: [22, 10, 26, 46], label: `Value by ${a.name}`,
      rows: () => ({ head: ['trial', a.name, app.study.metric],
      rows: Array.from(app.study.order, i => [i, cell(a, i), app.study.get('value')[i]]) }) })
    plot.draw = now => {
      a = now
      const f = plot.frame()
      if (!f) return
      const { study } = app, v = study.valueAxis(false), value = { ...v, lo: Math.min(v.lo, v.hi), hi: Math.max(v.lo, v.hi) }
      const x = positions(study, a, 0, f.W, true), y = positions(study, value, f.H, 0, true), m = models.get(a.key)
      const seen = trialMarks(f, study, study.order, x, y, app.selection.mask, hiddenKinds(app)), out = study.beyond(a)
      plot.note.textContent = [beyondText(study, v), out ? `${out} beyond the range of ${a.name}` : ''].filter(Boolean).join('; ')
      if (m) drawModel(f, a, m, pixels(value, f.H, 0), placed(a, m.xs, f.W))
      plot.xAxis(pixels(a, 0, f.W), a, null)
      plot.yAxis(pixels(value, f.H, 0), value, study.metric)
      plot.pointing((px, py) => { const i = nearest(seen, x, y, px, py);
        return i < 0 ? null : { text: describe(study, i), x: x[i], y: y[i],
        click: () => app.openTrial(i) } })
    }
    return plot
  }

  function drawModel(f, a, m, y, at) {
    const { ctx } = f, n = m.xs.length, px = k => f.left + at(k + .5), py = v => f.top + Math.max(-20, Math.min(f.H + 20, y(v)))
    ctx.save()
    ctx.beginPath()
    ctx.rect(f.left, f.top, f.W, f.H)
    ctx.clip()
    ctx.strokeStyle = ctx.fillStyle = css('--b')
    ctx.lineWidth = 2
    if (a.category) {
      for (let k = 0; k < n; k++) { ctx.beginPath(); ctx.moveTo(px(k), py(m.low[k])); ctx.lineTo(px(k), py(m.high[k]));
        ctx.stroke(); ctx.fillRect(px(k) - 5, py(m.median[k]) - 2, 10, 4) }
    } else {
      ctx.globalAlpha = .22
      ctx.beginPath()
      for (let k = 0; k < n; k++) ctx[k ? 'lineTo' : 'moveTo'](px(k), py(m.low[k]))
      for (let k = n - 1; k >= 0; k--) ctx.lineTo(px(k), py(m.high[k]))
      ctx.fill()
      ctx.globalAlpha = 1
      ctx.beginPath()
      for (let k = 0; k < n; k++) ctx[k ? 'lineTo' : 'moveTo'](px(k), py(m.median[k]))
      ctx.stroke()
    }
    ctx.restore()
  }
  return draw
}

// The mean over neighbours; dx and dy are 0 along a category, whose neighbours mean nothing.
function blur(a, w, h, dx, dy) {
  const b = new Float64Array(w * h)
  for (let y = 0; y < h; y++) for (let x = 0; x < w; x++) {
    let s = 0
    for (let j = Math.max(0, y - dy); j <= Math.min(h - 1, y + dy); j++)
      for (let i = Math.max(0, x - dx); i <= Math.min(w - 1, x + dx); i++) s += a[j * w + i]
    b[y * w + x] = s / ((2 * dx + 1) * (2 * dy + 1))
  }
  return b
}
