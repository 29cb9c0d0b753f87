// What is drawn on a canvas, once more as SVG: a pen draws, and remembers the calls of a few thousand marks.

const CALLS_MAX = 20000
const SETTINGS = ['fillStyle', 'strokeStyle', 'lineWidth', 'globalAlpha']
const CALLS = ['beginPath', 'moveTo', 'lineTo', 'arc', 'rect', 'closePath', 'fill', 'stroke', 'fillRect', 'clearRect', 'clip',
  'save', 'restore', 'translate', 'setLineDash', 'drawImage']

export class Pen {
  constructor(ctx) { this.ctx = ctx; this.calls = [] }

  // Whether all marks are remembered.
  get whole() { return this.calls.length < CALLS_MAX }

  note(name, args) {
    if (name === 'clearRect') this.calls = [] // it always clears all of it
    if (this.whole) this.calls.push([name, args])
  }

  // The marks as SVG. An image is one in it, too; rectangles that clip are the drawing areas of elements.
  svg() {
    const out = [], n = v => Math.round(v * 100) / 100
    let d = '', at = [0, 0], box = null, dash = '', open = 0, s = { lineWidth: 1, globalAlpha: 1 }
    const saved = [], point = (x, y) => `${n(x + at[0])} ${n(y + at[1])}`
    const alpha = kind => s.globalAlpha < 1 ? ` ${kind}-opacity="${s.globalAlpha}"` : ''
    const rect = (x, y, w, h) => `x="${n(x + at[0])}" y="${n(y + at[1])}" width="${n(w)}" height="${n(h)}"`
    const draw = {
      beginPath() { d = '' },
      moveTo(x, y) { d += 'M' + point(x, y) },
      lineTo(x, y) { d += 'L' + point(x, y) },
      closePath() { d += 'Z' },
      rect(x, y, w, h) { box = rect(x, y, w, h) },
      arc(x, y, r) { d += `M${point(x - r, y)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0` }, // always a circle
      fill() { out.push(`<path d="${d}" fill="${s.fillStyle}"${alpha('fill')}/>`) },
      stroke() {
        out.push(`<path d="${d}" fill="none" stroke="${s.strokeStyle}" stroke-width="${s.lineWidth}"${alpha('stroke')}${dash}/>`)
      },
      fillRect(x, y, w, h) { out.push(`<rect ${rect(x, y, w, h)} fill="${s.fillStyle}"${alpha('fill')}/>`) },
      clip() { const [x, y, w, h] = box.match(/-?[\d.]+/g); out.push(`<svg ${box} viewBox="${x} ${y} ${w} ${h}">`); open++ },
      save() { saved.push([at, open, s]); s = { ...s } },
      restore() { let before; [at, before, s] = saved.pop(); for (; open > before; open--) out.push('</svg>') },
      translate(x, y) { at = [at[0] + x, at[1] + y] },
      setLineDash(list) { dash = list.length ? ` stroke-dasharray="${list}"` : '' },
      drawImage(image, ...r) { out.push(`<image ${rect(...r)} preserveAspectRatio="none" href="${image.toDataURL()}"/>`) }
    }
    for (const [name, args] of this.calls) if (draw[name]) draw[name](...args)
    else s[name] = args
    return out.join('')
  }
}
for (const name of CALLS) Pen.prototype[name] = function (...args) { this.ctx[name](...args); this.note(name, args) }
for (const name of SETTINGS) Object.defineProperty(Pen.prototype, name,
  { get() { return this.ctx[name] }, set(v) { this.ctx[name] = v; this.note(name, this.ctx[name]) } })
