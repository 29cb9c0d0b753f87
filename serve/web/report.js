// The pages of `drover report`: views of the dashboard over data that the file itself contains.
import { Selection, narrowedFile } from './selection.js'
import { Study, unpack } from './study.js'
import { button, command, duration, el, num, save, table, text, whole } from './format.js'
import * as curves from './view_curves.js'
import * as overview from './view_overview.js'
import * as parallel from './view_parallel.js'
import * as pareto from './view_pareto.js'
import * as slices from './view_slices.js'
import * as trials from './view_table.js'
import * as timeline from './view_timeline.js'

const VIEWS = {
  overview: ['Overview', overview], parallel: ['Parallel coordinates', parallel], slices: ['Slices', slices],
  curves: ['Curves', curves], pareto: ['Pareto', pareto], timeline: ['Timeline', timeline], table: ['Trials', trials]
}
const answers = new Map()

// Reads an element of sweep_report_data.h once.
function answer(name) {
  if (!answers.has(name)) {
    const node = [...document.querySelectorAll('script[data-answer]')].find(s => s.dataset.answer === name)
    if (!node) return Promise.reject(new Error('The report does not contain this.'))
    const packed = new Blob([Uint8Array.from(atob(node.textContent), c => c.charCodeAt(0))])
    answers.set(name, new Response(packed.stream().pipeThrough(new DecompressionStream('gzip'))).arrayBuffer())
  }
  return answers.get(name)
}

// The curves of some of the trials that the report contains.
function pick(body, wanted) {
  const start = body.column('start'), at = new Map(body.head.ids.map((id, k) => [id, k]))
  const columns = { start: [0], step: [], value: [] }
  for (const id of wanted) {
    const k = at.get(id)
    if (k !== undefined) for (const name of ['step', 'value']) columns[name].push(...body.column(name).subarray(start[k], start[k + 1]))
    columns.start.push(columns.step.length)
  }
  return { head: body.head, column: name => columns[name] }
}

// What the views need of main.js.
const app = {
  study: new Study(), overview: null, list: { control: false }, selection: new Selection(), options: new Map(), view: 'overview',
  option(name, otherwise) { return this.options.get(`${this.view}.${name}`) ?? otherwise },
  setOption(name, value) { this.options.set(`${this.view}.${name}`, value === '' ? undefined : value) },
  go(view) { this.view = view; mount() },
  select(change, why) {
    change(this.selection.ranges)
    requestAnimationFrame(() => { this.selection.apply(this.study); draw(why ?? 'selection') })
  },
  setFilter(filter) { this.selection.filter = filter.trim(); this.select(() => {}) },
  openTrial(id) { showTrial(id) },
  async api(path) {
    const [what, query] = path.split('?'), q = new URLSearchParams(query)
    const metric = this.study.metrics.findIndex(m => m.name === q.get('metric'))
    if (what === 'density') return unpack(await answer(`density ${metric}`))
    if (what === 'curves') return pick(unpack(await answer(`curves ${metric}`)), q.get('ids').split(',').map(Number))
    return unpack(await answer(['surface', q.get('x'), q.get('y')].filter(Boolean).join(' ')))
  }
}
window.drover = app // for tests and the console

let drawView = null
const nav = el('nav', { 'aria-label': 'Views' }), bar = el('div', { class: 'bar', hidden: true }), view = el('div')
const panel = el('aside', { id: 'panel', 'aria-label': 'Trial', hidden: true })

function draw(why) {
  const { study, selection, overview: o } = app
  drawView(why)
  bar.hidden = selection.empty
  bar.replaceChildren(el('b', {}, `${whole(selection.count)} of ${whole(study.n)} selected`),
    ...selection.describe(study).map(t => el('span', { class: 'pill' }, t)),
    selection.ranges.size ? button('Sweep file with these ranges',
      () => save(`${study.name}-narrowed.yaml`, 'text/yaml', narrowedFile(o.file, study, selection))) : '',
    button('Clear', () => { selection.ranges.clear(); app.setFilter('') }))
}

function mount() {
  const wanted = Object.entries(VIEWS).filter(([id]) => id !== 'pareto' || app.study.metrics.length > 1)
  nav.replaceChildren(...wanted.map(([id, [title]]) => el('a', {
    href: '#', 'data-view': id, 'aria-current': id === app.view ? 'page' : null, onclick: e => { e.preventDefault(); app.go(id) }
  }, title)))
  const root = el('div')
  view.replaceChildren(root)
  drawView = VIEWS[app.view][1].mount(root, app)
  draw('mount')
}

function showTrial(id) {
  const { study, overview: o } = app, close = button('Close', () => { panel.hidden = true })
  const shown = v => typeof v === 'number' ? num(v) : v === null ? '–' : text(v), error = study.text(study.get('error')[id])
  panel.replaceChildren(
    el('div', { class: 'bar' }, el('h2', {}, `Trial ${id}`), el('span', { class: 'pill' }, study.stateText(id)),
      el('span', { class: 'grow' }), close),
    table(['', ''], [[study.metric ?? 'value', study.get('value')[id]], ['duration', duration(study.get('seconds')[id])],
      ['node', study.text(study.get('node')[id])]]),
    el('h3', {}, 'Parameters'), table(['parameter', 'value'], study.params.map(p => [p.name, shown(study.paramText(p, id))])),
    el('h3', {}, 'Metrics'), table(['metric', 'least', 'largest', 'last'],
      study.metrics.map(m => [m.name, m.min.v[id], m.max.v[id], m.last.v[id]])),
    error ? el('pre', { class: 'log' }, error) : '',
    o.best?.id === id && o.best.command ? command(o.best.command) : '')
  panel.hidden = false
  close.focus()
}

// Draws the views in place of the sentence that is there for browsers without scripts. If something fails, it stays.
async function start() {
  const pages = document.querySelector('#pages'), dark = matchMedia('(prefers-color-scheme: dark)')
  const theme = () => { document.documentElement.dataset.theme = dark.matches ? 'dark' : 'light' }
  if (!pages) return
  const [columns, facts] = await Promise.all([answer('columns'), answer('overview')])
  app.study.apply(unpack(columns))
  app.overview = JSON.parse(new TextDecoder().decode(facts))
  app.selection.apply(app.study)
  theme()
  const said = [...pages.childNodes]
  pages.replaceChildren(nav, bar, view)
  document.body.append(panel)
  try { mount() } catch (e) { pages.replaceChildren(...said); throw e }
  addEventListener('resize', () => requestAnimationFrame(() => document.documentElement.clientWidth && draw('size')))
  addEventListener('keydown', e => { if (e.key === 'Escape') panel.hidden = true })
  dark.addEventListener('change', () => { theme(); draw('theme') })
}
start()
