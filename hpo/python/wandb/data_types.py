"""Media and tables: accepted wherever W&B accepts them, and not used by a sweep."""


class WBValue:
    def __init__(self, *args, **given):
        self.args, self.given = args, given

    def __repr__(self):
        return f"<wandb.{type(self).__name__}>"


class Image(WBValue):
    pass


class Video(WBValue):
    pass


class Audio(WBValue):
    pass


class Html(WBValue):
    pass


class Object3D(WBValue):
    pass


class Molecule(WBValue):
    pass


class Plotly(WBValue):
    pass


class Graph(WBValue):
    pass


class Classes(WBValue):
    pass


class Histogram(WBValue):
    pass


class Table(WBValue):
    def __init__(self, columns=None, data=None, rows=None, dataframe=None, **given):
        super().__init__(**given)
        if dataframe is not None:
            columns, data = list(dataframe.columns), dataframe.values.tolist()
        self.columns = list(columns or ["Input", "Output", "Expected"])
        self.data = [list(row) for row in (rows if data is None else data) or []]

    def add_data(self, *values):
        if len(values) != len(self.columns):
            raise ValueError(f"This table expects {len(self.columns)} columns: {self.columns}, found {len(values)}")
        self.data.append(list(values))

    def add_row(self, *row):
        self.add_data(*row)

    def add_column(self, name, data, optional=False):
        if self.data and len(data) != len(self.data):
            raise AssertionError(f"the table has {len(self.data)} rows, the column {len(data)}")
        self.columns = [*self.columns, name] if self.data else [name]
        self.data = [[*row, x] for row, x in zip(self.data, data)] if self.data else [[x] for x in data]

    def get_column(self, name, convert_to=None):
        at = self.columns.index(name)
        return [row[at] for row in self.data]

    def iterrows(self):
        return enumerate(self.data)

    def get_dataframe(self):
        import pandas
        return pandas.DataFrame(self.data, columns=self.columns)


class JoinedTable(WBValue):
    pass
