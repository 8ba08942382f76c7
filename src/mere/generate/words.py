"""Words that made-up names are put together from."""

from __future__ import annotations


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


FIRST_NAMES = _words("""
    Ada Alma Amir Anouk Aris Bela Bo Bruno Carla Cem Clara Dana Dario Dina Edda Eli Elsa Emil Enzo Fara Felix
    Finn Gita Hana Hugo Ida Ilan Ines Ivo Jana Jonas Juna Kai Kira Lale Lars Lea Leo Lina Luca Maja Malik Mara
    Milo Mina Nadia Nils Noa Nora Ole Omar Pia Quinn Rafi Rosa Runa Sami Selma Sina Tara Theo Tilda Uma Vera
    Vito Wanda Yara Yusuf Zora
""")
LAST_NAMES = _words("""
    Abel Adler Amsel Arendt Bakker Barlow Becker Birch Bloom Brandt Calder Castell Corvin Dahl Demir Dorn Eber
    Ekdal Falk Farrow Feld Fenn Gallo Garner Grau Hale Haller Hartog Holm Ilves Jansen Kaya Keller Kovar Krause
    Lang Larch Linde Lund Marek Marsh Moreau Nagy Noor Novak Olsen Orel Pereira Petri Quist Rasmus Reed Rossi
    Sahin Sauer Silva Soren Stark Tamm Thorne Ulrich Varga Vogel Wagner Weber Winter Yilmaz Zander Zeller
""")
CITIES = _words("""
    Altenau Bergfeld Brookhaven Castleford Eastmere Elmstadt Fairhollow Glenport Havenbrook Kingsmoor Lakeside
    Marbach Millbridge Neuhafen Northwick Oakhurst Portalder Ravensburgh Rosenfeld Seabright Stonegate Sundby
    Tidewater Westering Whitford
""")
PLACES = _words("""
    Anchor Beacon Birch Canal Cedar Chapel Copper Crescent Depot Elm Falcon Ferry Foundry Garden Granite Harbor
    Heron Juniper Lantern Linden Maple Market Meadow Mill Orchard Pepper Quarry Silver Station Summit Tanner
    Willow
""")
PARTS = _words("""
    Heights Hill Park Square Village Yards Point Gardens Slope Landing
""")
