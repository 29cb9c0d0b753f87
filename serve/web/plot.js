// A card with a plot: a canvas for marks, an SVG over it for axes, a table behind it, and exports of both.
import { Pen } from './pen.js'
import { bandOf, scaleOf, scatter } from './study.js'
import { button, csv, el, num, save, table, whole } from './format.js'

export const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim()

export class Plot {
  // title, label (what screen readers say), width (a class), height, margin [top, right, bottom, left],
  // rows (() => {head, rows}), extras (nodes of the head)
  constructor(options) {
    Object.assign(this, { height: 260, margin: [22, 14, 38, 52] }, options)
    this.note = el('small', { 'aria-live': 'polite' })
    this.box = el('div', { class: 'plot', role: 'img', 'aria-label': this.label ?? this.title })
    this.canvas = el('canvas', { 'aria-hidden': 'true' })
    this.svg = d3.create('svg').attr('role', 'none')
    this.tip = el('div', { class: 'tip', hidden: true })
    this.box.append(this.canvas, this.svg.node(), this.tip)
    this.message = el('p', { class: 'empty', hidden: true })
    this.head = el('div', { class: 'head' }, el('h2', {}, this.title), this.note, el('span', { class: 'grow' }), this.extras,
      button('SVG', () => this.saveSvg(), { title: 'Save this plot. Thousands of marks become an image in it.' }),
      this.rows && button('CSV', () => this.saveCsv(), { title: 'Save the data of this plot' }))
    this.card = el('section', { class: `card ${this.width ?? ''}`, 'aria-label': this.title }, this.head, this.box, this.message)
    if (this.rows) {
      const body = el('div'), details = el('details', { ontoggle: () => {
        const { head, rows } = details.open ? this.rows() : { head: [], rows: [] }
        body.replaceChildren(details.open ? table(head, rows) : '')
      } }, el('summary', {}, 'Data as a table'), body)
      this.card.append(details)
    }
  }

  // Says why there is nothing to draw; without a text, the plot is there again.
  say(text) {
    this.message.textContent = text ?? ''
    this.message.hidden = !text
    this.box.hidden = !!text
  }

  // Empties the canvas. Returns the drawing area, or null if the page has no width at the moment.
  frame(height = this.height, margin = this.margin) {
    this.say()
    const w = this.box.clientWidth, r = devicePixelRatio || 1, [top, right, bottom, left] = margin
    const W = Math.round(w - left - right), H = Math.round(height - top - bottom)
    if (W < 20) return null
    this.box.style.height = height + 'px'
    this.canvas.width = Math.round(w * r)
    this.canvas.height = Math.round(height * r)
    const ctx = new Pen(this.canvas.getContext('2d'))
    ctx.ctx.setTransform(r, 0, 0, r, 0, 0)
    this.f = { ctx, svg: this.svg, r, w, height, top, left, W, H }
    return this.f
  }

  group(name, x = this.f.left, y = this.f.top) {
    return this.svg.selectAll('g.' + name).data([0]).join('g').attr('class', name).attr('transform', `translate(${x},${y})`)
  }

  xAxis(scale, axis, name) {
    const { f } = this
    this.group('x', f.left, f.top + f.H).call(ticks(d3.axisBottom(scale), axis, f.W / 90)).call(axisLabel, name, f.W, 32, 'end')
  }

  yAxis(scale, axis, name) {
    this.group('y').call(ticks(d3.axisLeft(scale), axis, 5)).call(axisLabel, name, 0, -9, 'start')
  }

  // A rectangle that takes the pointer. pick(x, y) returns {text, x, y, click} or null.
  pointing(pick) {
    const { f } = this, self = this
    const hit = this.group('hit').selectAll('rect').data([0]).join('rect').attr('width', f.W).attr('height', f.H)
      .attr('fill', 'none').attr('pointer-events', 'all').style('touch-action', 'pan-y')
    let found = null
    hit.on('pointermove', function () {
      const [x, y] = d3.mouse(this)
      found = pick(x, y)
      self.showTip(found)
    }).on('pointerleave', () => this.showTip(null)).on('click', () => found?.click?.())
    return hit
  }

  showTip(found) {
    const { f, tip } = this
    tip.hidden = !found
    this.group('dot').selectAll('circle').data(found && !found.bar ? [found] : []).join('circle')
      .attr('r', 4.5).attr('pointer-events', 'none') // else it takes the wheel from the rectangle below
      .attr('fill', css('--b')).attr('stroke', css('--card')).attr('cx', d => d.x).attr('cy', d => d.y)
    if (!found) return
    tip.textContent = found.text
    const x = f.left + found.x, right = x > f.w / 2
    Object.assign(tip.style, { left: right ? '' : x + 10 + 'px', right: right ? f.w - x + 10 + 'px' : '',
      top: Math.max(0, f.top + found.y - 30) + 'px' })
  }

  fileName(ending) { return `${document.title.split(' · ')[0]}-${this.title.toLowerCase().replace(/[^a-z0-9]+/g, '-')}.${ending}` }

  saveCsv() {
    const { head, rows } = this.rows()
    save(this.fileName('csv'), 'text/csv', csv(head, rows))
  }

  // The axes are shapes and text. So are the marks, unless they are too many.
  saveSvg() {
    const { w, height } = this.f ?? {}
    if (!w || this.box.hidden) return
    const copy = this.svg.node().cloneNode(true), from = this.svg.selectAll('*').nodes(),
      to = d3.select(copy).selectAll('*').nodes()
    from.forEach((node, i) => {
      const s = getComputedStyle(node)
      for (const k of ['fill', 'stroke', 'stroke-width', 'font', 'font-weight', 'text-anchor', 'paint-order', 'fill-opacity'])
        to[i].setAttribute(k, s.getPropertyValue(k))
      to[i].removeAttribute('style')
      if (to[i].matches('.hit, .overlay, .dot')) to[i].setAttribute('display', 'none')
    })
    for (const [k, v] of Object.entries({ width: w, height, viewBox: `0 0 ${w} ${height}` })) copy.setAttribute(k, v)
    // As text: an image element of this document would be loaded, which the page's policy forbids.
    const box = `width="${w}" height="${height}"`, marks = this.f.ctx.whole ? this.f.ctx.svg()
      : `<desc>The marks are an image: they are too many for shapes.</desc><image ${box} href="${this.canvas.toDataURL()}"/>`
    save(this.fileName('svg'), 'image/svg+xml', new XMLSerializer().serializeToString(copy)
      .replace('>', () => `><rect ${box} fill="${css('--card')}"/>${marks}`))
  }
}

function axisLabel(g, name, x, y, anchor) {
  g.selectAll('text.name').data(name ? [name] : []).join('text').attr('class', 'name').attr('x', x).attr('y', y)
    .attr('text-anchor', anchor).text(s => s)
}

// With a format of its own, a logarithmic axis of d3 labels every tick of a decade. Powers alone are wanted.
export function ticks(drawn, a, n) {
  if (a?.category) {
    const every = Math.ceil(a.values.length / Math.max(2, n * 2))
    return drawn.tickValues(d3.range(0, a.values.length, every)).tickFormat(k => cut(a.values[k])).tickSizeOuter(0)
  }
  drawn.ticks(Math.max(2, a?.whole && !a.log ? Math.min(n, Math.abs(a.hi - a.lo)) : n)).tickFormat(num)
  if (a?.log) {
    const lo = Math.min(a.lo, a.hi), hi = Math.max(a.lo, a.hi), two = lo >= 1 && a.whole
    const f = two ? Math.log2 : Math.log10, base = two ? 2 : 10, from = Math.ceil(f(lo) - 1e-9), to = Math.floor(f(hi) + 1e-9)
    const step = Math.max(1, Math.ceil((to - from) / Math.max(2, n)))
    const powers = d3.range(from, to + .5, step).map(e => base ** e)
    const fine = d3.range(from - 1, to + 1).flatMap(e => [1, 2, 5].map(m => m * base ** e)).filter(v => v >= lo && v <= hi)
    drawn.tickValues(powers.length > 2 || two ? powers : fine)
  }
  return drawn.tickSizeOuter(0)
}
export const cut = v => { const s = typeof v === 'string' ? v : JSON.stringify(v);
  return s.length > 16 ? s.slice(0, 15) + '…' : s }

// A d3 scale of an axis (study.js) over pixels.
export function pixels(a, from, to) {
  if (a.category) return bandOf(a).range(from <= to ? [from, to] : [to, from])
    .domain(from <= to ? d3.range(a.values.length) : d3.range(a.values.length).reverse())
  return scaleOf(a).range([from, to])
}

// Counts per pixel to one colour: opacity is half the count's rank among the pixels, half its logarithm, so that
// structure stays visible where marks saturate.
export function shade(count, w, h, colour) {
  const image = new ImageData(w, h), out = new Uint32Array(image.data.buffer)
  const top = 2048, seen = new Uint32Array(top + 1)
  let pixels = 0, most = 1
  for (let i = 0; i < count.length; i++) if (count[i]) {
    const c = Math.min(top, count[i])
    seen[c]++
    pixels++
    if (c > most) most = c
  }
  const { r, g, b } = d3.rgb(colour), base = b << 16 | g << 8 | r, lut = new Uint32Array(top + 1)
  for (let c = 1, below = 0; c <= most; c++) {
    below += seen[c]
    lut[c] = base | (50 + 100 * below / pixels + 100 * Math.log(1 + c) / Math.log(1 + most)) << 24
  }
  for (let i = 0; i < count.length; i++) if (count[i]) out[i] = lut[Math.min(top, count[i])]
  return image
}

export function paint(f, image, x = f.left, y = f.top, w = f.W, h = f.H) {
  const off = Object.assign(document.createElement('canvas'), { width: image.width, height: image.height })
  off.getContext('2d').putImageData(image, 0, 0)
  f.ctx.drawImage(off, x, y, w, h)
}

const FEW = 2500
// The marks of trials: dots of done ones, rings of stopped ones, crosses of failed ones, small dots of running ones.
export const KINDS = {
  pruned: { sign: '○', colour: '--pruned', ring: true, text: 'pruned, at their best or last report' },
  done: { sign: '●', colour: '--a', text: 'done' },
  running: { sign: '●', colour: '--run', text: 'running or waiting' },
  failed: { sign: '✕', colour: '--bad', cross: true, text: 'failed or cancelled' }
}

// Marks at (x[i], y[i]) in pixels for the trials of `ids`; NaN: no mark. Trials that are not selected are grey below. The
// kinds in `off` have no marks. Returns the ids that may have a mark.
export function trialMarks(f, study, ids, x, y, mask, off) {
  const of = Object.fromEntries(Object.keys(KINDS).map(k => [k, []])), seen = []
  for (const i of ids) { const kind = study.kind(i); if (!off.has(kind)) { of[kind].push(i); seen.push(i) } }
  for (const [kind, list] of Object.entries(of)) if (list.length) marks(f, list, x, y, mask, KINDS[kind], seen.length)
  return seen
}

// The kinds of marks with their numbers; a click hides a kind.
export function kindLegend(app, redraw, ids) {
  const { study } = app, off = hiddenKinds(app), count = {}
  for (const i of ids) { const kind = study.kind(i); count[kind] = (count[kind] ?? 0) + 1 }
  return Object.keys(KINDS).filter(k => count[k]).map(k => button([el('i', { class: 'sign sign-' + k }, KINDS[k].sign), ` ${k} ${whole(count[k])}`],
    () => { off.has(k) ? off.delete(k) : off.add(k); app.setOption('off', [...off].join(' ')); redraw() },
    { class: 'kind', 'aria-pressed': String(!off.has(k)), title: KINDS[k].text + ': press to hide or show' }))
}
export const hiddenKinds = app => new Set(app.option('off', '').split(' ').filter(Boolean))

// Says how many trials an axis leaves out. up: larger values are above.
export function beyondText(study, a, up = true) {
  const n = study.beyond(a), above = up !== study.maximize
  return n ? `${above ? '▲' : '▼'} ${whole(n)} trial${n === 1 ? '' : 's'} ${n === 1 ? 'lies' : 'lie'} ${above ? 'above' : 'below'} the axis` : ''
}

export function marks(f, ids, x, y, mask, { colour, ring, cross } = { colour: '--a' }, total = ids.length) {
  if (total <= FEW) {
    const radius = total > 600 ? 2 : 3
    for (const [want, paint, alpha] of [[0, '--rest', .55], [1, colour, ring || cross ? .9 : .7]]) {
      f.ctx.fillStyle = f.ctx.strokeStyle = css(paint)
      f.ctx.globalAlpha = alpha
      f.ctx.lineWidth = cross ? 1.8 : 1.2
      f.ctx.beginPath()
      for (const i of ids) if (mask[i] === want && x[i] === x[i] && y[i] === y[i]) {
        const a = f.left + x[i], b = f.top + y[i]
        if (cross) for (const s of [1, -1]) { f.ctx.moveTo(a - radius, b - s * radius); f.ctx.lineTo(a + radius, b + s * radius) }
        else { f.ctx.moveTo(a + radius, b); f.ctx.arc(a, b, radius, 0, 7) }
      }
      ring || cross ? f.ctx.stroke() : f.ctx.fill()
    }
    f.ctx.globalAlpha = 1
    return
  }
  const r = f.r, W = Math.round(f.W * r), H = Math.round(f.H * r)
  const on = new Uint32Array(W * H), off = new Uint32Array(W * H)
  let rest = 0
  for (let k = 0; k < ids.length; k++) {
    const i = ids[k], a = x[i] * r | 0, b = y[i] * r | 0
    if (!(x[i] >= 0 && y[i] >= 0 && a < W && b < H)) continue
    const at = b * W + a
    if (mask[i]) on[at]++
    else { off[at]++; rest++ }
  }
  if (rest) paint(f, shade(off, W, H, css('--rest')))
  paint(f, shade(on, W, H, css(colour)))
}

// The nearest mark by a scan of the columns: 0.2 ms for 50,000 trials, while d3.quadtree takes 23 ms to build.
export function nearest(ids, x, y, px, py, reach = 14) {
  let found = -1, least = reach * reach
  for (let k = 0; k < ids.length; k++) {
    const i = ids[k], a = x[i] - px, b = y[i] - py, d = a * a + b * b
    if (d < least) { least = d; found = i }
  }
  return found
}

// The positions of all trials in pixels. Values outside of the axis are clamped to its ends, or are NaN with `cut`.
export function positions(study, a, from, to, cut) {
  const n = study.n, out = new Float32Array(n), col = a.col
  if (a.category) {
    const scale = pixels(a, from, to), width = scale.bandwidth(), at = a.values.map((_, k) => scale(k)), shift = scatter(a.key)
    for (let i = 0; i < n; i++) out[i] = col[i] < 0 ? NaN : at[col[i]] + width * shift(i)
    return out
  }
  const g = a.log ? Math.log : x => x, lo = g(a.lo), by = (to - from) / (g(a.hi) - lo)
  const low = Math.min(from, to), high = Math.max(from, to)
  for (let i = 0; i < n; i++) {
    const p = from + (g(col[i]) - lo) * by
    out[i] = p < low ? cut && p < low - .01 ? NaN : low : p > high ? cut && p > high + .01 ? NaN : high : p
  }
  return out
}
