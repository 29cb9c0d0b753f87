// Table: all selected trials, with virtual scrolling, sorting and a filter.
import { button, csv, el, num, save, text, whole } from './format.js'

const ROW = 26, SPARE = 12

export function mount(root, app) {
  const filter = el('input', { class: 'wide', placeholder: "filter: lr < 1e-3 and act == 'relu' and value < 0.1",
    'aria-label': 'Filter', value: app.selection.filter,
    onchange: () => app.setFilter(filter.value) })
  const error = el('small', { role: 'alert' })
  const scroller = el('div', { class: 'virtual' }), space = el('div'), head = el('thead'), body = el('tbody')
  const node = el('table', { role: 'grid', tabindex: 0, 'aria-label': 'Trials' }, head, body)
  scroller.append(space, node)
  const count = el('small')
  root.replaceChildren(el('section', { class: 'card' },
    el('div', { class: 'head' }, el('h2', {}, 'Trials'), count, el('span', { class: 'grow' }),
      button('CSV', () => { const { heads, rows } = everything();
        save(`${app.study.name}-trials.csv`, 'text/csv', csv(heads, rows)) })),
    el('div', { class: 'tools' }, filter), error, scroller,
    el('small', {}, 'Click a column to sort. Click a trial for its log, files and leases; the arrow keys move between trials.')))

  let columns = [], rows = new Uint32Array(0), first = -1, current = -1
  const everything = () => ({ heads: columns.map(c => c.name), rows: Array.from(rows, i => columns.map(c => c.raw(i))) })

  function setColumns() {
    const { study } = app, get = c => study.get(c)
    const fact = (name, col) => ({ key: name, name, number: true, raw: i => get(col)[i], show: i => num(get(col)[i]) })
    const words = (name, f) => ({ key: name, name, raw: f, show: i => f(i) ?? '' })
    columns = [{ key: 'trial', name: 'trial', number: true, raw: i => i, show: i => String(i) },
      words('state', i => study.stateText(i))]
    if (study.metric) columns.push({ ...fact(study.metric, 'value'), key: 'value' })
    for (const p of study.params.filter(p => p.varies)) columns.push({ key: 'p:' + p.name, name: p.name, number: !p.category,
      order: p.category ? i => p.col.v[i] : null,
      raw: i => p.category ? cell(study.paramText(p, i)) : p.col.v[i],
        show: i => cell(study.paramText(p, i)) })
    for (const m of study.metrics.filter(m => m.name !== study.metric)) columns.push({ key: 'm:' + m.name, name: m.name,
      number: true, raw: i => m.last.v[i], show: i => num(m.last.v[i]) })
    columns.push(fact('steps', 'steps'), fact('seconds', 'seconds'), words('node', i => study.text(get('node')[i])),
      words('why', i => study.text(get('error')[i]) ?? study.text(get('why')[i])))
  }
  const cell = v => v === null ? 'not set' : typeof v === 'number' ? num(v) : text(v)

  function sortRows() {
    const { study, selection } = app, key = app.option('sort', study.metric ? 'value' : 'trial'),
      down = app.option('down', '') === '1'
    const all = new Uint32Array(study.n)
    let n = 0
    if (key === 'value' && !down) { // the best ones first, then trials without a value
      for (const i of study.order) if (selection.mask[i]) all[n++] = i
      for (let i = 0; i < study.n; i++) if (selection.mask[i] && study.rank[i] !== study.rank[i]) all[n++] = i
      rows = all.subarray(0, n)
      return
    }
    for (let i = 0; i < study.n; i++) if (selection.mask[i]) all[n++] = i
    rows = all.subarray(0, n)
    const c = columns.find(c => c.key === key) ?? columns[0], of = c.order ?? c.raw, sign = down ? -1 : 1
    const keys = Array.from({ length: study.n }, (_, i) => selection.mask[i] ? of(i) : null)
    const none = v => v === null || v === undefined || v !== v
    rows.sort((a, b) => {
      const x = keys[a], y = keys[b]
      if (none(x) || none(y)) return none(x) - none(y) || a - b // missing values are last in both directions
      return (x < y ? -sign : x > y ? sign : 0) || a - b
    })
  }

  function drawHead() {
    const key = app.option('sort', app.study.metric ? 'value' : 'trial'), down = app.option('down', '') === '1'
    head.replaceChildren(el('tr', {}, columns.map(c =>
      el('th', { scope: 'col', class: c.number ? 'num' : null,
      'aria-sort': c.key === key ? down ? 'descending' : 'ascending' : null },
      button(c.name + (c.key === key ? down ? ' ▾' : ' ▴' : ''), () => {
        app.setOption('down', c.key === key && !down ? '1' : '')
        app.setOption('sort', c.key)
        draw()
      })))))
  }

  function drawRows(force) {
    const from = Math.max(0, Math.floor(scroller.scrollTop / ROW) - SPARE / 2),
      most = Math.ceil(scroller.clientHeight / ROW) + SPARE
    if (!force && from === first) return
    first = from
    node.style.top = from * ROW + 'px' // the head sticks to the top of the box while the table is in it
    const to = Math.min(rows.length, from + most), out = []
    for (let k = from; k < to; k++) {
      const i = rows[k]
      out.push(el('tr', { id: 'row-' + k, 'data-row': k, 'aria-rowindex': k + 2, 'aria-selected': k === current ? 'true' : null,
        class: i === app.study.best ? 'best' : null },
        columns.map(c => el('td', { class: c.number ? 'num' : null }, c.show(i)))))
    }
    body.replaceChildren(...out)
    node.setAttribute('aria-activedescendant', current >= from && current < to ? 'row-' + current : '')
  }

  scroller.addEventListener('scroll', () => drawRows(false), { passive: true })
  body.addEventListener('click', e => {
    const row = e.target.closest('tr')
    if (row) open(Number(row.dataset.row))
  })
  node.addEventListener('keydown', e => {
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: 15, PageUp: -15 }[e.key]
    if (e.target !== node || (!by && e.key !== 'Enter') || !rows.length) return
    e.preventDefault()
    if (!by) return open(Math.max(0, current))
    current = Math.min(rows.length - 1, Math.max(0, current + by))
    const top = current * ROW
    if (top < scroller.scrollTop || top > scroller.scrollTop + scroller.clientHeight - 3 * ROW) scroller.scrollTop = Math.max(0,
      top - scroller.clientHeight / 2)
    drawRows(true)
  })
  function open(k) {
    current = k
    drawRows(true)
    app.openTrial(rows[k])
  }

  function draw() {
    const { study, selection } = app
    setColumns()
    sortRows()
    count.textContent = study.n ? `${whole(rows.length)} of ${whole(study.n)}` : 'no trials yet'
    if (document.activeElement !== filter) filter.value = selection.filter
    filter.setAttribute('aria-invalid', !!selection.error)
    error.textContent = selection.error ?? ''
    space.style.height = (rows.length + 1) * ROW + 'px'
    node.setAttribute('aria-rowcount', rows.length + 1)
    drawHead()
    drawRows(true)
  }
  return draw
}
